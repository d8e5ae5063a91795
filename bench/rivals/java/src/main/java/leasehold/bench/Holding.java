package leasehold.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;

/** Jobs for long holds and for callers that wait. */
final class Holding {
    /** How many acquisitions run at the same time while many holds are created. */
    private static final int TOGETHER = 64;

    private static final long SETTLE_MILLIS = 1_000;

    private static final int MOST_LOOKS = 20;

    private Holding() {}

    static Map<String, Object> hold(RedissonClient redisson, String contender, JsonNode job) throws Exception {
        int count = job.get("count").asInt();
        String prefix = job.get("prefix").asText();
        long before = Figures.heap();
        Semaphore places = new Semaphore(TOGETHER);
        AtomicReference<Throwable> failure = new AtomicReference<>();
        for (int number = 0; number < count; number++) {
            places.acquire();
            String name = prefix + "-" + number;
            RLock lock = contender.equals("redisson-fenced") ? redisson.getFencedLock(name) : redisson.getLock(name);
            lock.lockAsync(Thread.currentThread().getId()).whenComplete((done, error) -> {
                failure.compareAndSet(null, error);
                places.release();
            });
        }
        places.acquire(TOGETHER);
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
        return Map.of("bytes", Figures.heap() - before);
    }

    static Map<String, Object> seize(RedissonClient redisson, JsonNode job) {
        long lease = job.get("lease_ms").asLong();
        redisson.getLock(job.get("name").asText()).lock(lease, TimeUnit.MILLISECONDS);
        return Map.of("entered_ns", System.nanoTime());
    }

    static Map<String, Object> enter(List<RedissonClient> clients, String contender, JsonNode job)
            throws InterruptedException {
        Door lock = Door.of(clients, contender, job.get("name").asText());
        lock.enter();
        long entered = System.nanoTime();
        lock.leave();
        return Map.of("entered_ns", entered);
    }

    static Map<String, Object> idle(JsonNode job) throws InterruptedException {
        long cpu = Figures.cpu();
        long began = System.nanoTime();
        Thread.sleep(job.get("millis").asLong());
        return Map.of("wall_ns", System.nanoTime() - began, "cpu_ns", Figures.cpu() - cpu);
    }

    /** Lets callers wait by asynchronous calls, which need less memory than threads that wait. */
    static Map<String, Object> wait(RedissonClient redisson, JsonNode job) throws InterruptedException {
        int tasks = job.get("tasks").asInt();
        RLock lock = redisson.getLock(job.get("name").asText());
        AtomicInteger ended = new AtomicInteger();
        long before = Figures.heap();
        for (int number = 1; number <= tasks; number++) {
            lock.lockAsync(number).whenComplete((done, error) -> ended.incrementAndGet());
        }
        long grown = settled(before);
        if (ended.get() > 0) {
            throw new IllegalStateException(ended + " callers did not wait");
        }
        return Map.of("bytes", grown);
    }

    /** Waits until the heap stops growing. Returns the growth of the heap since {@code before}. */
    private static long settled(long before) throws InterruptedException {
        long last = 0;
        for (int look = 0; look < MOST_LOOKS; look++) {
            Thread.sleep(SETTLE_MILLIS);
            long grown = Figures.heap() - before;
            if (grown < last * 1.03) {
                return grown;
            }
            last = grown;
        }
        throw new IllegalStateException("the heap still grows after " + MOST_LOOKS + " looks");
    }
}
