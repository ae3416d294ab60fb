package org.cleavedb.cassandra.compare;

import java.util.Arrays;

/** The latencies of operations in nanoseconds, each kept exactly. */
final class Latencies {
    private static final double MICROS = 1e3;

    private long[] nanos = new long[1024];
    private int count;

    synchronized void add(long taken) {
        if (count == nanos.length) {
            nanos = Arrays.copyOf(nanos, 2 * count);
        }
        nanos[count++] = taken;
    }

    /** In microseconds. */
    synchronized double percentile(double percent) {
        if (count == 0) {
            return Double.NaN;
        }
        long[] sorted = Arrays.copyOf(nanos, count);
        Arrays.sort(sorted);
        int at = (int) Math.ceil(percent / 100 * count) - 1;
        return sorted[Math.max(0, at)] / MICROS;
    }
}
