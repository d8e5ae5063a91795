package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** Executes the commands by calls of Redisson. */
final class Performer {
    private final Peer peer;
    private final RedissonClient redisson;
    // An RLock remembers its last requested lease. So each thread has its own RLock for each name,
    // and no thread gets the lease of another thread.
    private final ThreadLocal<Map<String, RLock>> locks = ThreadLocal.withInitial(HashMap::new);

    Performer(Peer peer) {
        this.peer = peer;
        this.redisson = peer.redisson();
    }

    Object perform(Command command) throws Exception {
        if (command.op().startsWith(Permits.OPS)) {
            return Permits.perform(redisson, command);
        } else if (command.op().startsWith(Limiter.OPS)) {
            return Limiter.perform(redisson, command);
        } else if (command.op().startsWith(Data.MAP)) {
            return Data.map(redisson, command);
        } else if (command.op().startsWith(Data.SET)) {
            return Data.set(redisson, command);
        } else if (command.op().startsWith(Queue.OPS)) {
            return Queue.perform(redisson, command);
        }
        return switch (command.op()) {
            case "threadId" -> Thread.currentThread().getId();
            case "crowd" -> new Crowd(peer, command).run();
            default -> switch (command.text("kind", "lock")) {
                case "semaphore" -> performOnSemaphore(command, redisson.getSemaphore(command.text("name")));
                case "latch" -> performOnLatch(command, redisson.getCountDownLatch(command.text("name")));
                default -> performOnLock(command, lock(command));
            };
        };
    }

    private static Object performOnSemaphore(Command command, RSemaphore semaphore) throws Exception {
        int permits = Math.toIntExact(command.number("permits", 1));
        return switch (command.op()) {
            case "acquire" -> timed(() -> {
                if (command.has("wait_ms")) {
                    return semaphore.tryAcquire(permits, Duration.ofMillis(command.number("wait_ms")));
                }
                semaphore.acquire(permits);
                return true;
            });
            case "tryAcquire" -> timed(() -> semaphore.tryAcquire(permits));
            case "release" -> {
                semaphore.release(permits);
                yield true;
            }
            case "trySetPermits" -> semaphore.trySetPermits(permits);
            case "addPermits" -> {
                semaphore.addPermits(permits);
                yield true;
            }
            case "drainPermits" -> semaphore.drainPermits();
            case "availablePermits" -> semaphore.availablePermits();
            case "delete" -> semaphore.delete();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    private static Object performOnLatch(Command command, RCountDownLatch latch) throws Exception {
        return switch (command.op()) {
            case "await" -> timed(() -> {
                if (command.has("wait_ms")) {
                    return latch.await(command.number("wait_ms"), MILLISECONDS);
                }
                latch.await();
                return true;
            });
            case "countDown" -> {
                latch.countDown();
                yield true;
            }
            case "trySetCount" -> latch.trySetCount(command.number("count"));
            case "getCount" -> latch.getCount();
            case "delete" -> latch.delete();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    private static Object performOnLock(Command command, RLock lock) throws Exception {
        return switch (command.op()) {
            case "lock" -> timed(() -> {
                if (command.has("lease_ms")) {
                    lock.lock(command.number("lease_ms"), MILLISECONDS);
                } else {
                    lock.lock();
                }
                return true;
            });
            case "lockInterruptibly" -> timed(() -> {
                if (command.has("lease_ms")) {
                    lock.lockInterruptibly(command.number("lease_ms"), MILLISECONDS);
                } else {
                    lock.lockInterruptibly();
                }
                return true;
            });
            case "tryLock" -> timed(() -> {
                if (command.has("lease_ms")) {
                    return lock.tryLock(command.number("wait_ms", 0), command.number("lease_ms"), MILLISECONDS);
                }
                if (command.has("wait_ms")) {
                    return lock.tryLock(command.number("wait_ms"), MILLISECONDS);
                }
                return lock.tryLock();
            });
            case "unlock" -> {
                lock.unlock();
                yield true;
            }
            case "forceUnlock" -> lock.forceUnlock();
            case "isLocked" -> lock.isLocked();
            case "isHeldByThread" -> lock.isHeldByThread(
                    command.number("thread_id", Thread.currentThread().getId()));
            case "isHeldByCurrentThread" -> lock.isHeldByCurrentThread();
            case "getHoldCount" -> lock.getHoldCount();
            case "remainTimeToLive" -> lock.remainTimeToLive();
            default -> performOnFencedLock(command, (RFencedLock) lock);
        };
    }

    private static Long performOnFencedLock(Command command, RFencedLock lock) {
        return switch (command.op()) {
            case "token" -> lock.getToken();
            case "lockAndGetToken" -> command.has("lease_ms")
                    ? lock.lockAndGetToken(command.number("lease_ms"), MILLISECONDS)
                    : lock.lockAndGetToken();
            case "tryLockAndGetToken" -> command.has("wait_ms")
                    ? lock.tryLockAndGetToken(command.number("wait_ms"), MILLISECONDS)
                    : lock.tryLockAndGetToken();
            default -> throw new IllegalArgumentException("unknown op `" + command.op() + "`");
        };
    }

    private RLock lock(Command command) {
        String kind = command.text("kind", "lock");
        String name = command.text("name");
        return locks.get().computeIfAbsent(kind + " " + name, k -> lock(redisson, kind, name));
    }

    static RLock lock(RedissonClient redisson, String kind, String name) {
        return switch (kind) {
            case "lock" -> redisson.getLock(name);
            case "spin" -> redisson.getSpinLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "getNonReentrantLock", "getNonReentrantFairLock" -> since44(redisson, kind, name);
            case "fenced" -> redisson.getFencedLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "multi" -> redisson.getMultiLock(
                    Stream.of(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            case "red" -> Red.lock(name);
            default -> throw new IllegalArgumentException("unknown kind `" + kind + "`");
        };
    }

    /** Calls a method that Redisson 3.29 does not have. */
    private static RLock since44(RedissonClient redisson, String method, String name) {
        try {
            return (RLock) RedissonClient.class.getMethod(method, String.class).invoke(redisson, name);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Map<String, Object> timed(Attempt attempt) throws InterruptedException {
        long asked = System.nanoTime();
        boolean acquired = attempt.run();
        long acquiredAt = Answers.now();
        long waited = System.nanoTime() - asked;

        Map<String, Object> value = new LinkedHashMap<>();
        value.put("acquired", acquired);
        value.put("waited_ms", TimeUnit.NANOSECONDS.toMillis(waited));
        if (acquired) {
            value.put("acquired_at", acquiredAt);
        }
        return value;
    }

    private interface Attempt {
        boolean run() throws InterruptedException;
    }
}
