package leasehold.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.redisson.api.RedissonClient;

/**
 * Pairs of acquire and release. Each task has its own names, or all tasks share one name. A task is
 * a thread.
 */
final class Pairs {
    private final List<RedissonClient> clients;
    private final int tasks;
    private final String contender;
    private final boolean shared;
    private final int names;
    private final String prefix;
    private final long length;

    Pairs(List<RedissonClient> clients, String contender, JsonNode job) {
        this.clients = clients;
        this.contender = contender;
        tasks = job.get("tasks").asInt();
        shared = job.get("job").asText().equals("share");
        names = shared ? 1 : job.get("names").asInt();
        prefix = job.get(shared ? "name" : "prefix").asText();
        length = job.get("millis").asLong() * 1_000_000;
    }

    Map<String, Object> run() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        long cpu = Figures.cpu();
        long began = System.nanoTime();
        List<Future<long[]>> running = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            String[] share = share(task);
            running.add(threads.submit(() -> goRound(share, began + length)));
        }
        List<long[]> done = new ArrayList<>();
        for (Future<long[]> each : running) {
            done.add(each.get());
        }
        long wall = System.nanoTime() - began;
        cpu = Figures.cpu() - cpu;
        threads.shutdown();
        return summary(done.stream().flatMapToLong(Arrays::stream).toArray(), wall, cpu);
    }

    /** The names of one task. Two tasks have the same name only if all tasks share one name. */
    private String[] share(int task) {
        if (shared) {
            return new String[] {prefix};
        }
        return IntStream.range(0, names)
                .filter(number -> number % tasks == task)
                .mapToObj(number -> prefix + "-" + number)
                .toArray(String[]::new);
    }

    private long[] goRound(String[] share, long end) throws InterruptedException {
        long[] durations = new long[1024];
        int count = 0;
        long asked = System.nanoTime();
        while (asked < end) {
            Door door = Door.of(clients, contender, share[count % share.length]);
            door.enter();
            door.leave();
            long now = System.nanoTime();
            if (count == durations.length) {
                durations = Arrays.copyOf(durations, count * 2);
            }
            durations[count++] = now - asked;
            asked = now;
        }
        return Arrays.copyOf(durations, count);
    }

    private static Map<String, Object> summary(long[] durations, long wall, long cpu) {
        return Map.of(
                "pairs", durations.length,
                "wall_ns", wall,
                "cpu_ns", cpu,
                "p50_ns", Figures.percentile(durations, 0.5),
                "p99_ns", Figures.percentile(durations, 0.99));
    }
}
