package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** Executes the commands for expirable semaphores. */
final class Permits {
    /** The prefix of these operations. */
    static final String OPS = "permits.";

    private Permits() {}

    static Object perform(RedissonClient redisson, Command command) throws Exception {
        RPermitExpirableSemaphore permits = redisson.getPermitExpirableSemaphore(command.text("name"));
        return switch (command.op().substring(OPS.length())) {
            case "acquire" -> acquired(permits, command);
            case "tryAcquire" -> tried(permits, command);
            case "release" -> {
                permits.release(command.text("permit"));
                yield true;
            }
            case "tryRelease" -> permits.tryRelease(command.text("permit"));
            case "available" -> permits.availablePermits();
            case "held" -> permits.acquiredPermits();
            case "total" -> permits.getPermits();
            case "trySet" -> permits.trySetPermits((int) command.number("count"));
            case "add" -> {
                permits.addPermits((int) command.number("count"));
                yield true;
            }
            case "updateLease" ->
                permits.updateLeaseTime(command.text("permit"), command.number("lease_ms"), MILLISECONDS);
            case "crowd" -> crowd(redisson, permits, command);
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    /** Acquires permits. Returns their ids, and the time at which they were acquired. */
    private static Map<String, Object> acquired(RPermitExpirableSemaphore permits, Command command) throws Exception {
        List<String> ids = new ArrayList<>();
        if (command.has("count")) {
            ids.addAll(permits.acquire((int) command.number("count")));
        } else if (command.has("lease_ms")) {
            ids.add(permits.acquire(command.number("lease_ms"), MILLISECONDS));
        } else {
            ids.add(permits.acquire());
        }
        return reply(ids);
    }

    private static Map<String, Object> tried(RPermitExpirableSemaphore permits, Command command) throws Exception {
        String id = command.has("lease_ms")
                ? permits.tryAcquire(command.number("wait_ms", 0), command.number("lease_ms"), MILLISECONDS)
                : permits.tryAcquire(command.number("wait_ms", 0), MILLISECONDS);
        return reply(id == null ? List.of() : List.of(id));
    }

    private static Map<String, Object> reply(List<String> ids) {
        Map<String, Object> value = new LinkedHashMap<>();
        value.put("acquired", !ids.isEmpty());
        value.put("acquired_at", Answers.now());
        value.put("waited_ms", 0);
        value.put("ids", ids);
        return value;
    }

    /**
     * Runs threads that acquire and release a permit repeatedly. The threads count the holders of
     * all processes.
     */
    private static Map<String, Object> crowd(RedissonClient redisson, RPermitExpirableSemaphore permits, Command command)
            throws Exception {
        RAtomicLong inside = redisson.getAtomicLong(command.text("gauge"));
        long rounds = command.number("rounds");
        AtomicLong most = new AtomicLong();
        AtomicLong done = new AtomicLong();
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> members = new ArrayList<>();
        for (int i = 0; i < command.number("threads"); i++) {
            Thread member = new Thread(() -> {
                try {
                    for (long round = 0; round < rounds; round++) {
                        String id = permits.acquire(30, TimeUnit.SECONDS);
                        most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                        LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(500));
                        inside.decrementAndGet();
                        permits.release(id);
                        done.incrementAndGet();
                    }
                } catch (Throwable e) {
                    failure.compareAndSet(null, e);
                }
            });
            member.setDaemon(true);
            member.start();
            members.add(member);
        }
        for (Thread member : members) {
            member.join();
        }
        if (failure.get() != null) {
            throw new IllegalStateException("a member of the crowd failed: " + failure.get(), failure.get());
        }
        return Map.of("done", done.get(), "most", most.get());
    }
}
