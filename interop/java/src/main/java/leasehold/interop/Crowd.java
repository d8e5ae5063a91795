package leasehold.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.redisson.api.RAtomicLong;
import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RList;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.codec.StringCodec;

/**
 * Many threads that increment one counter under one lock, or under one permit of a semaphore.
 *
 * <p>The counter is read and written by a plain GET and a plain SET. If two
 * holders overlap, in any processes, an increment may be lost. With a fenced lock,
 * each holder also appends its token to a list.
 *
 * <p>With a read lock, no thread increments. Each reader counts itself, and checks that
 * the counter does not change. A writer checks that there is no reader.
 *
 * <p>A stubborn crowd continues if the servers of the lock reject a request. It repeats a rejected
 * acquisition, does not repeat a rejected release, and reports the rejections. A rejected request
 * may have left a hold of this thread. If the thread reentered this hold again and again, the hold
 * would never end. So the thread pauses until the lease is over before it continues.
 *
 * <p>With replicas, Redisson repeats an acquisition whose connection was closed, and counts it
 * twice, without an error. So after each release, a thread of a stubborn crowd checks whether it
 * still holds the lock. If it does, it releases the lock again, and reports this.
 *
 * <p>A crowd that continues until a stop key exists also counts its rounds.
 */
final class Crowd {
    private final RedissonClient redisson;
    private final String kind;
    private final String name;
    private final RBucket<String> counter;
    private final RList<String> tokens;
    private final RAtomicLong readers;
    private final RBucket<String> beside;
    private final RBucket<String> over;
    private final RAtomicLong made;
    private final int threads;
    private final long rounds;
    private final long limitNanos;
    private final long holdNanos;
    private final long restNanos;
    private final boolean stubborn;
    private final boolean untilTold;
    private final Queue<String> refusals = new ConcurrentLinkedQueue<>();
    private final CountDownLatch start = new CountDownLatch(1);
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    Crowd(Peer peer, Command command) {
        redisson = peer.redisson();
        RedissonClient counters = peer.counters();
        kind = command.text("kind", "lock");
        name = command.text("name");
        counter = counters.getBucket(command.text("counter"), StringCodec.INSTANCE);
        tokens = counters.getList(command.text("counter") + ":tokens", StringCodec.INSTANCE);
        readers = counters.getAtomicLong(command.text("counter") + ":readers");
        beside = counters.getBucket(command.text("counter") + ":beside", StringCodec.INSTANCE);
        over = counters.getBucket(command.text("counter") + ":over", StringCodec.INSTANCE);
        made = counters.getAtomicLong(command.text("counter") + ":java");
        threads = Math.toIntExact(command.number("threads"));
        rounds = command.number("rounds", Long.MAX_VALUE);
        limitNanos = command.has("seconds") ? TimeUnit.SECONDS.toNanos(command.number("seconds")) : Long.MAX_VALUE;
        holdNanos = TimeUnit.MICROSECONDS.toNanos(command.number("hold_us", 0));
        restNanos = TimeUnit.MICROSECONDS.toNanos(command.number("rest_us", 0));
        stubborn = command.is("stubborn");
        untilTold = command.is("until_stopped");
        if (!command.has("rounds") && !command.has("seconds") && !untilTold) {
            throw new IllegalArgumentException("a crowd needs `rounds`, `seconds` or `until_stopped`");
        }
    }

    Map<String, Object> run() throws Exception {
        List<Member> members = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            members.add(new Member());
        }
        members.forEach(Thread::start);
        long began = System.nanoTime();
        start.countDown();
        for (Member member : members) {
            member.join();
        }
        if (failure.get() != null) {
            throw new IllegalStateException("a member of the crowd failed: " + failure.get(), failure.get());
        }

        Map<String, Object> report = new LinkedHashMap<>();
        report.put("done", members.stream().map(m -> m.done).toList());
        report.put("total", members.stream().mapToLong(m -> m.done).sum());
        report.put("max_wait_ms", millis(members.stream().mapToLong(m -> m.maxWait).max().orElse(0)));
        report.put("total_wait_ms", millis(members.stream().mapToLong(m -> m.totalWait).sum()));
        report.put("refusals", refusals.stream().sorted().toList());
        report.put("elapsed_ms", millis(System.nanoTime() - began));
        return report;
    }

    private static long millis(long nanos) {
        return TimeUnit.NANOSECONDS.toMillis(nanos);
    }

    private final class Member extends Thread {
        private long done;
        private long maxWait;
        private long totalWait;
        private final RLock lock = kind.equals("semaphore") ? null : Performer.lock(redisson, kind, name);

        Member() {
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                start.await();
                long began = System.nanoTime();
                while (done < rounds && System.nanoTime() - began < limitNanos && failure.get() == null && !isTold()) {
                    round();
                }
            } catch (Throwable e) {
                failure.compareAndSet(null, e);
            }
        }

        private boolean isTold() {
            if (!untilTold) {
                return false;
            }
            return over.isExists();
        }

        private void add() {
            String seen = counter.get();
            long next = seen == null ? 1 : Long.parseLong(seen) + 1;
            if (holdNanos > 0) {
                LockSupport.parkNanos(holdNanos);
            }
            counter.set(Long.toString(next));
        }

        private void look() {
            if (readers.incrementAndGet() > 1) {
                beside.set("seen");
            }
            String seen = counter.get();
            if (holdNanos > 0) {
                LockSupport.parkNanos(holdNanos);
            }
            if (!Objects.equals(seen, counter.get())) {
                throw new IllegalStateException("somebody wrote while it was read");
            }
            readers.decrementAndGet();
        }

        private void nobodyReads() {
            if (readers.get() != 0) {
                throw new IllegalStateException("somebody reads while it is written");
            }
        }

        /** Acquires the lock or the permit. Returns the token if the lock is a fenced lock. */
        private Long enter() throws InterruptedException {
            if (kind.equals("semaphore")) {
                redisson.getSemaphore(name).acquire();
            } else if (lock instanceof RFencedLock fenced) {
                return fenced.lockAndGetToken();
            } else {
                lock.lock();
            }
            return null;
        }

        private void leave() {
            if (kind.equals("semaphore")) {
                redisson.getSemaphore(name).release();
            } else {
                lock.unlock();
            }
        }

        private void round() throws InterruptedException {
            long asked = System.nanoTime();
            Long token = enterAtLast();
            long waited = System.nanoTime() - asked;
            try {
                work(token);
                done++;
                if (untilTold) {
                    made.incrementAndGet();
                }
            } finally {
                leaveOrForget();
            }
            maxWait = Math.max(maxWait, waited);
            totalWait += waited;
            if (restNanos > 0) {
                LockSupport.parkNanos(restNanos);
            }
        }

        private Long enterAtLast() throws InterruptedException {
            while (true) {
                try {
                    return enter();
                } catch (RedisException e) {
                    refused(e);
                }
            }
        }

        private void leaveOrForget() throws InterruptedException {
            try {
                leave();
                if (stubborn && lock != null) {
                    releaseWhatWasCountedTwice();
                }
            } catch (RedisException | IllegalMonitorStateException e) {
                refused(e);
            }
        }

        private void releaseWhatWasCountedTwice() {
            while (lock.isHeldByCurrentThread()) {
                refusals.add("still held after unlock()");
                leave();
            }
        }

        private void refused(RuntimeException e) throws InterruptedException {
            if (!stubborn) {
                throw e;
            }
            refusals.add(e.getClass().getSimpleName() + ": " + e.getMessage());
            Thread.sleep(redisson.getConfig().getLockWatchdogTimeout());
        }

        private void work(Long token) {
            if (token != null) {
                tokens.add(Long.toString(token));
            }
            switch (kind) {
                case "read" -> look();
                case "write" -> {
                    nobodyReads();
                    add();
                    nobodyReads();
                }
                default -> add();
            }
        }
    }
}
