package leasehold.bench;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RSemaphore;
import org.redisson.api.RSet;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * An object that a task acquires and releases. The name of the contender selects the class of
 * Redisson.
 */
interface Door {
    /** The lease of Redisson's locks. */
    long LEASE_SECONDS = 30;

    void enter() throws InterruptedException;

    void leave();

    /** The object for clients of one server, or of all servers of a quorum. */
    static Door of(List<RedissonClient> clients, String contender, String name) {
        RedissonClient redisson = clients.get(0);
        return switch (contender) {
            case "redisson" -> of(redisson.getLock(name));
            case "redisson-fair" -> of(redisson.getFairLock(name));
            case "redisson-fenced" -> fenced(redisson, name);
            case "redisson-map" -> of(redisson.<String, String>getMap(name, StringCodec.INSTANCE));
            case "redisson-multi" ->
                of(redisson.getMultiLock(redisson.getLock(name + "-a"), redisson.getLock(name + "-b")));
            case "redisson-queue" -> of(redisson.<String>getBlockingQueue(name, StringCodec.INSTANCE));
            case "redisson-quorum" ->
                of(new RedissonRedLock(clients.stream().map(it -> it.getLock(name)).toArray(RLock[]::new)));
            case "redisson-set" -> of(redisson.<String>getSet(name, StringCodec.INSTANCE));
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
                // There is nothing to release, because permits come back after the interval.
            }
        };
    }

    private static Door of(RMap<String, String> map) {
        return new Door() {
            @Override
            public void enter() {
                map.put("key", "value");
            }

            @Override
            public void leave() {
                map.get("key");
            }
        };
    }

    private static Door of(RSet<String> set) {
        return new Door() {
            @Override
            public void enter() {
                set.add("element");
            }

            @Override
            public void leave() {
                set.remove("element");
            }
        };
    }

    private static Door of(RBlockingQueue<String> queue) {
        return new Door() {
            @Override
            public void enter() {
                queue.offer("element");
            }

            @Override
            public void leave() {
                queue.poll();
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
