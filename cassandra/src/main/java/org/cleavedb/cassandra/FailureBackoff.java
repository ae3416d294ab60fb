package org.cleavedb.cassandra;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * A backoff for SSTables whose task has failed. They are not picked again for {@link
 * #DURATION_NANOS}: the cause, such as a full disk, is likely to persist, and other work would wait
 * behind a task that fails over and over.
 *
 * <p>This class is thread-safe, since tasks fail in threads of their own.
 *
 * @param <F> the type of an SSTable
 */
final class FailureBackoff<F> {
    static final long DURATION_NANOS = TimeUnit.MINUTES.toNanos(10);

    private final LongSupplier clock;
    private final Map<F, Long> failedAt = new HashMap<>();

    /** @param clock a monotonic clock in nanoseconds, of any origin */
    FailureBackoff(LongSupplier clock) {
        this.clock = clock;
    }

    synchronized void recordFailure(Collection<F> files) {
        files.forEach(file -> failedAt.put(file, clock.getAsLong()));
    }

    synchronized boolean isBackingOff(F file) {
        Long failed = failedAt.get(file);
        return failed != null && clock.getAsLong() - failed < DURATION_NANOS;
    }

    /** Forgets all SSTables but these, so that removed ones do not stay in memory. */
    synchronized void retainOnly(Collection<F> files) {
        failedAt.keySet().retainAll(files);
    }
}
