package leasehold.interop;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/**
 * A hold of one thread, with a lease that is not renewed.
 *
 * <p>Redisson does not report the end of a lease. So this class checks the clock. After a late
 * reply, if the thread still holds the lock, this class reads the rest of the lease from Redis.
 */
abstract class Held {
    private final long leaseMillis;
    private long until;

    private Held(long leaseMillis) {
        this.leaseMillis = leaseMillis;
    }

    static Held of(RedissonClient redisson, JsonNode object, boolean reads, long lease) {
        String name = object.path("name").asText();
        return switch (object.path("kind").asText()) {
            case "lock" -> new Lock(redisson.getLock(name), "exclusive", lease);
            case "fair" -> new Lock(redisson.getFairLock(name), "exclusive", lease);
            case "multi" -> Multi.of(redisson, object.path("members"), reads, lease);
            case "fenced", "election" -> new Fenced(redisson.getFencedLock(name), lease);
            case "read_write" -> reads
                    ? new Lock(redisson.getReadWriteLock(name).readLock(), "shared", lease)
                    : new Lock(redisson.getReadWriteLock(name).writeLock(), "exclusive", lease);
            case "permits" -> new Permit(redisson.getPermitExpirableSemaphore(name), lease);
            default -> throw new IllegalArgumentException("no such kind: " + object);
        };
    }

    abstract String mode();

    /** Whether a quick reply to a grant suffices, so that no other request confirms the lease. */
    boolean believesGrants() {
        return true;
    }

    Long token() {
        return null;
    }

    /** Acquires the object. Returns true if it was acquired and the lease has not ended. */
    final boolean take(long patienceMillis) throws InterruptedException {
        long asked = System.nanoTime();
        if (!acquire(patienceMillis, leaseMillis)) {
            return false;
        }
        until = asked + (leaseMillis - MARGIN) * 1_000_000;
        if (believesGrants() && System.nanoTime() - asked < SOON) {
            return true;
        }
        // The reply took long, so the time of the grant is unknown. This thread reads the remaining
        // lease.
        long looked = System.nanoTime();
        long left = leftMillis();
        until = looked + (left - MARGIN) * 1_000_000;
        return isHeld();
    }

    /** Whether the lease has not ended. */
    final boolean isHeld() {
        return System.nanoTime() < until;
    }

    /**
     * Releases extra holds of this thread. They exist if Redis executed an acquisition whose reply
     * was lost, or if a failover has lost a release. If the thread always acquired again within a
     * lease, its extra holds would never end.
     */
    void dropOrphans() {}

    /** Releases the hold. Returns whether a reply confirmed the release. */
    final boolean giveBack() {
        try {
            return release();
        } catch (RuntimeException e) {
            return false;
        }
    }

    protected abstract boolean acquire(long patience, long lease) throws InterruptedException;

    /** The rest of the lease in ms, or 0 if the lease has ended or the hold is lost. */
    protected abstract long leftMillis();

    protected abstract boolean release();

    private static class Lock extends Held {
        private final RLock lock;
        private final String mode;

        Lock(RLock lock, String mode, long lease) {
            super(lease);
            this.lock = lock;
            this.mode = mode;
        }

        @Override
        String mode() {
            return mode;
        }

        @Override
        protected boolean acquire(long patience, long lease) throws InterruptedException {
            return lock.tryLock(patience, lease, MILLISECONDS);
        }

        /**
         * The TTL of the key counts only while this thread holds the lock. Otherwise the TTL
         * belongs to another hold.
         */
        @Override
        protected long leftMillis() {
            long left = lock.remainTimeToLive();
            return lock.isHeldByCurrentThread() ? left : 0;
        }

        @Override
        void dropOrphans() {
            while (lock.getHoldCount() > 1) {
                lock.unlock();
            }
        }

        @Override
        protected boolean release() {
            lock.unlock();
            return true;
        }
    }

    private static final class Fenced extends Lock {
        private final RFencedLock lock;
        private Long token;

        Fenced(RFencedLock lock, long lease) {
            super(lock, "exclusive", lease);
            this.lock = lock;
        }

        @Override
        Long token() {
            return token;
        }

        @Override
        protected boolean acquire(long patience, long lease) {
            token = lock.tryLockAndGetToken(patience, lease, MILLISECONDS);
            return token != null;
        }
    }

    /**
     * Several locks. While Redisson's multi-lock waits, it holds members with a lease of twice the
     * wait. At the end of the wait, it extends the TTL of their keys, and does not check whether it
     * still holds the members.
     */
    private static final class Multi extends Held {
        private final RLock all;
        private final List<Lock> members;

        private Multi(RLock all, List<Lock> members, long lease) {
            super(lease);
            this.all = all;
            this.members = members;
        }

        static Multi of(RedissonClient redisson, JsonNode names, boolean inOrder, long lease) {
            List<RLock> locks = new ArrayList<>();
            names.forEach(name -> locks.add(redisson.getLock(name.asText())));
            if (!inOrder) {
                Collections.reverse(locks);
            }
            RLock all = redisson.getMultiLock(locks.toArray(RLock[]::new));
            return new Multi(all, locks.stream().map(it -> new Lock(it, "exclusive", lease)).toList(), lease);
        }

        @Override
        String mode() {
            return "exclusive";
        }

        @Override
        boolean believesGrants() {
            return false;
        }

        /**
         * Waits for at most half a lease, so that the members are free within a lease even if
         * the process dies meanwhile.
         */
        @Override
        protected boolean acquire(long patience, long lease) throws InterruptedException {
            return all.tryLock(Math.min(patience, lease / 2), lease, MILLISECONDS);
        }

        @Override
        protected long leftMillis() {
            return members.stream().mapToLong(Held::leftMillis).min().orElse(0);
        }

        @Override
        void dropOrphans() {
            members.forEach(Held::dropOrphans);
        }

        @Override
        protected boolean release() {
            all.unlock();
            return true;
        }
    }

    private static final class Permit extends Held {
        private final RPermitExpirableSemaphore permits;
        private final long lease;
        private String id;

        Permit(RPermitExpirableSemaphore permits, long lease) {
            super(lease);
            this.permits = permits;
            this.lease = lease;
        }

        @Override
        String mode() {
            return "permit";
        }

        @Override
        protected boolean acquire(long patience, long lease) throws InterruptedException {
            id = permits.tryAcquire(patience, lease, MILLISECONDS);
            return id != null;
        }

        /** Sets the lease again. This succeeds only if this thread still holds the permit. */
        @Override
        protected long leftMillis() {
            return permits.updateLeaseTime(id, lease, MILLISECONDS) ? lease : 0;
        }

        @Override
        protected boolean release() {
            return permits.tryRelease(id);
        }
    }

    /** Each lease counts as this many ms shorter, for clock drift and the duration of a check. */
    private static final long MARGIN = 50;
    /** If the reply comes within this time, in ns, the lease counts from the request. */
    private static final long SOON = 200_000_000;
}
