package leasehold.bench;

import java.lang.management.ManagementFactory;
import java.util.Arrays;

/** Measurements of this process. */
final class Figures {
    private static final com.sun.management.OperatingSystemMXBean SYSTEM =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Figures() {}

    /** The processor time that this process has used, in nanoseconds. */
    static long cpu() {
        return SYSTEM.getProcessCpuTime();
    }

    /** The reachable bytes of the heap. */
    static long heap() {
        System.gc();
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    static long percentile(long[] values, double q) {
        Arrays.sort(values);
        return values.length == 0 ? 0 : values[Math.min((int) (values.length * q), values.length - 1)];
    }
}
