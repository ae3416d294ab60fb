package org.cleavedb.cassandra;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Files with which a task has failed. They are left alone for a while: what was in the way, such as
 * a disk without room for them, is likely to be there still, and others wait for their turn.
 *
 * <p>Safe for several threads: tasks fail in their own.
 *
 * @param <F> a file
 */
final class LeftAlone<F> {
    static final long NANOS = TimeUnit.MINUTES.toNanos(10);

    private final LongSupplier clock;
    private final Map<F, Long> since = new HashMap<>();

    /** @param clock in nanoseconds, of any beginning */
    LeftAlone(LongSupplier clock) {
        this.clock = clock;
    }

    synchronized void add(Collection<F> files) {
        files.forEach(file -> since.put(file, clock.getAsLong()));
    }

    synchronized boolean contains(F file) {
        Long failed = since.get(file);
        return failed != null && clock.getAsLong() - failed < NANOS;
    }

    /** Forgets all but these; files that have gone are not kept in memory. */
    synchronized void keepOnly(Collection<F> files) {
        since.keySet().retainAll(files);
    }
}
