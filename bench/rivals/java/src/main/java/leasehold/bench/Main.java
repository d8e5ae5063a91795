package leasehold.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Drives Redisson: {@code Main CONTENDER URL THREADS TTL_MS}. Each line of stdin is a job. */
final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Main() {}

    public static void main(String[] args) throws IOException {
        // The URL of a quorum is a list of URLs with commas.
        String[] urls = args[0].equals("redisson-quorum") ? args[1].split(",") : new String[] {args[1]};
        long ttl = Long.parseLong(args[3]);
        List<RedissonClient> clients = Stream.of(urls).map(url -> connect(url, ttl)).toList();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say(out, Map.of("ready", true));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            say(out, answer(clients, args[0], JSON.readTree(line)));
        }
        // Redisson's threads would keep the process alive, so this call halts the process. The
        // holds of this process end with their leases.
        Runtime.getRuntime().halt(0);
    }

    /** All settings are Redisson's defaults, except the addresses and the watchdog's lease. */
    private static RedissonClient connect(String url, long ttlMillis) {
        Config config = Where.of(url);
        config.setLockWatchdogTimeout(ttlMillis);
        return Redisson.create(config);
    }

    private static Object answer(List<RedissonClient> clients, String contender, JsonNode job) {
        try {
            return perform(clients, contender, job);
        } catch (Exception e) {
            return Map.of("error", e.toString());
        }
    }

    private static Object perform(List<RedissonClient> clients, String contender, JsonNode job)
            throws Exception {
        RedissonClient redisson = clients.get(0);
        return switch (job.get("job").asText()) {
            case "contend" -> new Contend(clients, contender, job).run();
            case "enter" -> Holding.enter(clients, contender, job);
            case "hold" -> Holding.hold(redisson, contender, job);
            case "idle" -> Holding.idle(job);
            case "outlast" -> Outlast.run(redisson, job);
            case "pairs", "share" -> new Pairs(clients, contender, job).run();
            case "seize" -> Holding.seize(redisson, job);
            case "wait" -> Holding.wait(redisson, job);
            case "wake" -> Waking.wake(redisson, job);
            default -> throw new IllegalArgumentException("no such job: " + job);
        };
    }

    private static void say(PrintStream out, Object answer) throws IOException {
        out.println(JSON.writeValueAsString(answer));
        out.flush();
    }
}
