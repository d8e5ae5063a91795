package leasehold.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Supplier;

/** A named thread with a queue of commands. Redisson knows a holder by its thread. */
final class Worker {
    private final BlockingQueue<Supplier<Runnable>> queue = new LinkedBlockingQueue<>();
    private final Thread thread;
    private boolean busy;

    Worker(String name) {
        thread = new Thread(this::serve, name);
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Runs {@code work} on this thread, marks the thread as idle, and then runs the task that
     * {@code work} has returned.
     */
    void submit(Supplier<Runnable> work) {
        queue.add(work);
    }

    /** Interrupts the running command. Returns whether a command was running. */
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
                // The thread must be idle before the test reads the reply.
                setBusy(false);
                reply.run();
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException("interrupted while idle", e);
        }
    }

    private synchronized void setBusy(boolean busy) {
        this.busy = busy;
        // An interrupt that came too late for its command must not end the next command.
        Thread.interrupted();
    }
}
