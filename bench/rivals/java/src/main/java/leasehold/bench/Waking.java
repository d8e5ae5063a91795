package leasehold.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RedissonClient;

/** The time from the opening of a latch until all waiters have passed. A task is a thread. */
final class Waking {
    /** The time after which all tasks wait, and Redisson has subscribed for them. */
    private static final long SETTLE_MILLIS = 200;

    private Waking() {}

    static Map<String, Object> wake(RedissonClient redisson, JsonNode job) throws Exception {
        int tasks = job.get("tasks").asInt();
        RCountDownLatch latch = redisson.getCountDownLatch(job.get("name").asText());
        latch.trySetCount(1);
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        List<Future<Long>> waiters = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            waiters.add(threads.submit(() -> {
                latch.await();
                return System.nanoTime();
            }));
        }
        Thread.sleep(SETTLE_MILLIS);
        long opens = System.nanoTime();
        latch.countDown();
        long[] delays = new long[tasks];
        for (int task = 0; task < tasks; task++) {
            delays[task] = waiters.get(task).get() - opens;
        }
        threads.shutdown();
        return Map.of(
                "p50_ns", Figures.percentile(delays, 0.5),
                "p99_ns", Figures.percentile(delays, 0.99));
    }
}
