package leasehold.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * A worker of a chaos run with a real Redisson: it reads its orders from stdin, contends,
 * and writes its events to stdout. The end of stdin kills the process, and its holds stay in Redis
 * until their leases end.
 *
 * <p>Times are those of {@code System.nanoTime()}, which on Linux is the monotonic clock
 * of the machine.
 */
public final class Contender {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static volatile boolean stopped;

    private final JsonNode orders;
    private final RedissonClient redisson;
    private final Voice voice;
    private final Random random;

    private Contender(JsonNode orders, RedissonClient redisson, Voice voice, long number) {
        this.orders = orders;
        this.redisson = redisson;
        this.voice = voice;
        this.random = new Random(orders.path("seed").asLong() * 1000 + number);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JsonNode orders = JSON.readTree(lines.readLine());
        Voice voice = new Voice(System.out, orders.path("first_hold").asLong());
        // Redisson writes to stdout, too. This output must not appear between the events.
        System.setOut(System.err);
        RedissonClient redisson = connect(orders.path("place").path("url").asText());

        List<Thread> threads = new ArrayList<>();
        for (long number = 0; number < orders.path("tasks").asLong(); number++) {
            Contender contender = new Contender(orders, redisson, voice, number);
            threads.add(new Thread(contender::contend));
        }
        voice.say("ready", "at", System.nanoTime());
        threads.forEach(Thread::start);
        if (!isStopOrdered(lines)) {
            Runtime.getRuntime().halt(1);
        }
        stopped = true;
        threads.forEach(Thread::interrupt);
        for (Thread thread : threads) {
            thread.join();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Reads go only to masters, because a replica may report the old lease of a hold. */
    private static RedissonClient connect(String url) {
        String[] flags = url.startsWith("redis://")
                ? new String[] {"--url", url}
                : new String[] {"--url", url, "--read-mode", "MASTER"};
        return Peer.connect(new Flags(flags)).redisson();
    }

    /** Returns true for an order to stop, and false at the end of the input. */
    private static boolean isStopOrdered(BufferedReader lines) throws Exception {
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (JSON.readTree(line).path("op").asText().equals("stop")) {
                return true;
            }
        }
        return false;
    }

    private void contend() {
        while (!stopped) {
            try {
                live();
                Thread.sleep(10 + random.nextInt(70));
            } catch (InterruptedException e) {
                // An interrupt has ended a wait or a pause, so the loop continues.
                continue;
            }
        }
    }

    private void live() throws InterruptedException {
        JsonNode objects = orders.path("objects");
        JsonNode object = objects.get(random.nextInt(objects.size()));
        boolean reads = random.nextInt(3) > 0;
        boolean writesLate = random.nextBoolean();
        long stay = 500_000 + random.nextInt(20_000_000);
        long patience = 100 + random.nextInt(3_000);

        String name = object.path("name").asText();
        if (object.path("kind").asText().equals("queue")) {
            poll(name, Math.min(patience, 1_000));
            return;
        }
        Held held = Held.of(redisson, object, reads, orders.path("ttl_ms").asLong());
        long hold = voice.nextHold();
        voice.say("ask", "hold", hold, "name", name, "mode", held.mode(), "call", System.nanoTime());
        if (!isTaken(held, patience, hold, name)) {
            return;
        }
        stay(held, hold, name, stay);
        if (writesLate && held.token() != null) {
            Thread.sleep(1 + random.nextInt(100));
            write(held, hold, name);
        }
    }

    /** Polls an element. Redisson has no claims, so the element counts as done at once. */
    private void poll(String name, long patience) {
        long hold = voice.nextHold();
        voice.say("ask", "hold", hold, "name", name, "mode", "claim", "call", System.nanoTime());
        String why = "busy";
        String element = null;
        try {
            // `join` ignores interrupts. If an interrupt ended the wait for the reply, the element
            // would be lost.
            element = redisson.<String>getBlockingQueue(name, StringCodec.INSTANCE)
                    .pollAsync(patience, TimeUnit.MILLISECONDS)
                    .toCompletableFuture()
                    .join();
        } catch (CompletionException e) {
            why = e.getCause().getClass().getSimpleName();
        }
        long at = System.nanoTime();
        if (element == null) {
            voice.say("gave_up", "hold", hold, "at", at, "why", why);
            return;
        }
        voice.say("enter", "hold", hold, "at", at, "element", element);
        voice.say("leaving", "hold", hold, "at", System.nanoTime());
        voice.say("done", "hold", hold, "at", System.nanoTime());
    }

    private boolean isTaken(Held held, long patience, long hold, String name) throws InterruptedException {
        String why = "busy";
        try {
            if (held.take(patience)) {
                held.dropOrphans();
            }
            if (held.isHeld()) {
                voice.say("enter", "hold", hold, "at", System.nanoTime(), "token", held.token());
                return true;
            }
        } catch (RuntimeException e) {
            why = e.getClass().getSimpleName();
        } catch (InterruptedException e) {
            voice.say("gave_up", "hold", hold, "at", System.nanoTime(), "why", "interrupted");
            throw e;
        }
        voice.say("gave_up", "hold", hold, "at", System.nanoTime(), "why", why);
        return false;
    }

    /**
     * Holds for this time, and checks every few milliseconds whether the lease is over. If it is
     * over, the recorded end of the hold is the time before the last successful check.
     */
    private void stay(Held held, long hold, String name, long stay) {
        long entered = System.nanoTime();
        long believed = entered;
        while (true) {
            long at = System.nanoTime();
            write(held, hold, name);
            if (!held.isHeld()) {
                voice.say("lost", "hold", hold, "at", believed);
                return;
            }
            believed = at;
            if (at >= entered + stay) {
                break;
            }
            rest();
        }
        voice.say("leaving", "hold", hold, "at", believed);
        if (held.giveBack()) {
            voice.say("left", "hold", hold, "at", System.nanoTime());
        } else {
            voice.say("lost", "hold", hold, "at", believed);
        }
    }

    /** Writes without a check of the lease, like a holder that was suspended after its check. */
    private void write(Held held, long hold, String name) {
        if (held.token() != null) {
            voice.say("write", "hold", hold, "name", name, "token", held.token(), "at", System.nanoTime());
        }
    }

    /** Pauses, and ignores interrupts, because the hold must still be released. */
    private static void rest() {
        Thread.interrupted();
        LockSupport.parkNanos(5_000_000);
        Thread.interrupted();
    }
}
