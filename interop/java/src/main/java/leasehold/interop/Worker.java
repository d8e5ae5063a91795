package leasehold.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Supplier;

/** A named thread with a queue: the identity under which Redisson knows a holder. */
final class Worker {
    private final BlockingQueue<Supplier<Runnable>> queue = new LinkedBlockingQueue<>();
    private final Thread thread;
    private boolean busy;

    Worker(String name) {
        thread = new Thread(this::serve, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Runs {@code work} on this thread. Then, when the thread is marked idle, runs the task that it returned. */
    void submit(Supplier<Runnable> work) {
        queue.add(work);
    }

    /** Interrupts the running command. Returns whether there was one. */
    synchronized boolean interrupt() {
        if (busy) {
            thread.interrupt();
        }
        return busy;
    }

    private void serve() {
        try {
            while (true) {
                Supplier<Runnable> work = queue.take();
                setBusy(true);
                Runnable reply = work.get();
                // The thread must be idle when its reply is read.
                setBusy(false);
                reply.run();
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException("interrupted while idle", e);
        }
    }

    private synchronized void setBusy(boolean busy) {
        this.busy = busy;
        // An interrupt that came too late for its command must not hit the next one.
        Thread.interrupted();
    }
}
