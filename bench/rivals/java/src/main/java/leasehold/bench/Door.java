package leasehold.bench;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** An object that a task acquires and releases. The name of the contender selects the class of Redisson. */
interface Door {
    /** The lease of Redisson's locks. */
    long LEASE_SECONDS = 30;

    void enter() throws InterruptedException;

    void leave();

    static Door of(RedissonClient redisson, String contender, String name) {
        return switch (contender) {
            case "redisson" -> of(redisson.getLock(name));
            case "redisson-fenced" -> fenced(redisson, name);
            case "redisson-limiter" -> of(redisson.getRateLimiter(name));
            case "redisson-permits" -> of(redisson.getPermitExpirableSemaphore(name));
            case "redisson-read" -> of(redisson.getReadWriteLock(name).readLock());
            case "redisson-semaphore" -> of(redisson.getSemaphore(name));
            default -> throw new IllegalArgumentException("no such contender: " + contender);
        };
    }

    private static Door of(RLock lock) {
        return new Door() {
            @Override
            public void enter() {
                lock.lock();
            }

            @Override
            public void leave() {
                lock.unlock();
            }
        };
    }

    private static Door fenced(RedissonClient redisson, String name) {
        var lock = redisson.getFencedLock(name);
        return new Door() {
            @Override
            public void enter() {
                lock.lockAndGetToken();
            }

            @Override
            public void leave() {
                lock.unlock();
            }
        };
    }

    private static Door of(RSemaphore semaphore) {
        return new Door() {
            @Override
            public void enter() throws InterruptedException {
                semaphore.acquire();
            }

            @Override
            public void leave() {
                semaphore.release();
            }
        };
    }

    private static Door of(RRateLimiter limiter) {
        return new Door() {
            @Override
            public void enter() {
                limiter.acquire();
            }

            @Override
            public void leave() {
                // Nothing to release: permits return with time.
            }
        };
    }

    private static Door of(RPermitExpirableSemaphore permits) {
        return new Door() {
            private String id;

            @Override
            public void enter() throws InterruptedException {
                id = permits.acquire(LEASE_SECONDS, TimeUnit.SECONDS);
            }

            @Override
            public void leave() {
                permits.release(id);
            }
        };
    }
}
