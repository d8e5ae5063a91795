package leasehold.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RedissonClient;

/** Many tasks that contend for one name. A task is a thread. */
final class Contend {
    private final List<RedissonClient> clients;
    private final String contender;
    private final int tasks;
    private final String name;
    private final long startAt;
    private final long length;
    private final long hold;
    private final boolean log;

    private final AtomicBoolean occupied = new AtomicBoolean();
    private final AtomicLong last = new AtomicLong();
    private final AtomicLong entries = new AtomicLong();
    private final AtomicLong handOvers = new AtomicLong();
    private final AtomicLong overlaps = new AtomicLong();
    private final AtomicLong longestWait = new AtomicLong();

    Contend(List<RedissonClient> clients, String contender, JsonNode job) {
        this.clients = clients;
        this.contender = contender;
        tasks = job.get("tasks").asInt();
        name = job.get("name").asText();
        startAt = job.get("start_ns").asLong();
        length = job.get("millis").asLong() * 1_000_000;
        hold = job.get("hold_us").asLong() * 1_000;
        log = job.get("log").asBoolean();
    }

    Map<String, Object> run() throws Exception {
        // On Linux, nanoTime() is the monotonic clock, which all processes share.
        LockSupport.parkNanos(startAt - System.nanoTime());
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        long cpu = Figures.cpu();
        long end = System.nanoTime() + length;
        List<Future<List<long[]>>> running = new ArrayList<>();
        for (int task = 1; task <= tasks; task++) {
            long number = task;
            running.add(threads.submit(() -> visit(number, end)));
        }
        List<long[]> visits = new ArrayList<>();
        for (Future<List<long[]>> each : running) {
            visits.addAll(each.get());
        }
        threads.shutdown();
        return Map.of(
                "entries", entries.get(),
                "hand_overs", handOvers.get(),
                "overlaps", overlaps.get(),
                "longest_wait_ns", longestWait.get(),
                "cpu_ns", Figures.cpu() - cpu,
                "log", visits);
    }

    /**
     * Acquires and releases until the end. A lock that is granted after the end is released and not
     * counted.
     */
    private List<long[]> visit(long task, long end) throws InterruptedException {
        List<long[]> visits = new ArrayList<>();
        Door lock = Door.of(clients, contender, name);
        while (true) {
            long asked = System.nanoTime();
            lock.enter();
            long entered = System.nanoTime();
            try {
                if (entered >= end) {
                    return visits;
                }
                longestWait.accumulateAndGet(entered - asked, Math::max);
                stay(task, entered, visits);
            } finally {
                lock.leave();
            }
        }
    }

    private void stay(long task, long entered, List<long[]> visits) {
        if (occupied.getAndSet(true)) {
            overlaps.incrementAndGet();
        }
        entries.incrementAndGet();
        long before = last.getAndSet(task);
        if (before != 0 && before != task) {
            handOvers.incrementAndGet();
        }
        while (System.nanoTime() - entered < hold) {
            Thread.onSpinWait();
        }
        occupied.set(false);
        if (log) {
            visits.add(new long[] {task, entered, System.nanoTime()});
        }
    }
}
