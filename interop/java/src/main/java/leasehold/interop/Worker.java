package leasehold.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A named thread with a queue: the identity under which Redisson knows a holder. */
final class Worker {
    private final BlockingQueue<Runnable> queue = new LinkedBlockingQueue<>();
    private final Thread thread;
    private boolean busy;

    Worker(String name) {
        thread = new Thread(this::serve, name);
        thread.setDaemon(true);
        thread.start();
    }

    void submit(Runnable work) {
        queue.add(work);
    }

    /** Interrupts the command that is running, and says whether there was one. */
    synchronized boolean interrupt() {
        if (busy) {
            thread.interrupt();
        }
        return busy;
    }

    private void serve() {
        try {
            while (true) {
                Runnable work = queue.take();
                setBusy(true);
                work.run();
                setBusy(false);
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
