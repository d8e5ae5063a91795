package leasehold.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;

/** Acquires one lock after the other during a failover. */
final class Outlast {
    /** The pause between two locks, so that the loop does not use a whole processor. */
    private static final long PAUSE_MILLIS = 2;

    private Outlast() {}

    /** Each lock has a new name, because a failover may lose a release. */
    static Map<String, Object> run(RedissonClient redisson, JsonNode job) throws InterruptedException {
        String prefix = job.get("prefix").asText();
        long gap = job.get("gap_ms").asLong() * 1_000_000;
        long last = System.nanoTime();
        for (long number = 0; ; number++) {
            Thread.sleep(PAUSE_MILLIS);
            RLock lock = redisson.getLock(prefix + "-" + number);
            try {
                lock.lock();
            } catch (RedisException e) {
                continue;
            }
            long now = System.nanoTime();
            if (now - last > gap) {
                return Map.of("entered_ns", now);
            }
            last = now;
            leave(lock);
        }
    }

    /** Releases a lock. If the release fails, the hold ends with its lease. */
    private static void leave(RLock lock) {
        try {
            lock.unlock();
        } catch (RedisException | IllegalMonitorStateException e) {
            return;
        }
    }
}
