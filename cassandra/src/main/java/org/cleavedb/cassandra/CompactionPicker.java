package org.cleavedb.cassandra;

import java.util.List;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;

/**
 * The compaction picker of the redundant side: it picks the SSTables that are rewritten next.
 * Separating the mixed SSTables of a large table takes hours, while flushes go on. Therefore mixed
 * SSTables and the log alternate, and a backlog of segments comes before everything else.
 *
 * <p>This class is not thread-safe; the monitor of {@link ReplicaDecouplingStrategy} guards it.
 *
 * @param <F> the type of an SSTable
 */
final class CompactionPicker<F> {
    /** The most mixed SSTables of one task; more would need too much free disk space. */
    static final int MAX_MIXED = 8;
    /** The most segments per shard of one split; a larger backlog is split in several tasks. */
    private static final int MAX_SEGMENTS = 32;
    /** Segments are a backlog from this multiple of {@code split_segments} on. */
    private static final int BACKLOG_FACTOR = 2;

    /** A set of SSTables and the reason to rewrite them. */
    static final class Pick<F> {
        final CompactionReason reason;
        final List<F> files;

        Pick(CompactionReason reason, List<F> files) {
            this.reason = reason;
            this.files = files;
        }
    }

    private final RoleManifest<F> manifest;
    private final int splitSegments;
    private final ToLongFunction<F> size;
    private final FailureBackoff<F> backoff;
    private boolean mixedPickedLast;

    /**
     * @param splitSegments the number of segments in one shard that triggers a split
     * @param size returns the bytes of an SSTable on disk
     * @param backoff holds mixed SSTables that could not be separated
     */
    CompactionPicker(RoleManifest<F> manifest, int splitSegments, ToLongFunction<F> size,
            FailureBackoff<F> backoff) {
        this.manifest = manifest;
        this.splitSegments = splitSegments;
        this.size = size;
        this.backoff = backoff;
    }

    /**
     * Picks the most urgent work, or returns null if there is none.
     *
     * @param ordering the most runs that a group may keep
     * @param free accepts SSTables that no other operation has claimed
     */
    Pick<F> next(int ordering, Predicate<F> free) {
        backoff.retainOnly(manifest.mixed());
        List<F> segments = pickSegments(splitSegments, free);
        if (!pickSegments(BACKLOG_FACTOR * splitSegments, free).isEmpty()) {
            return new Pick<>(CompactionReason.SPLIT, segments);
        }
        List<F> overfull = manifest.pickMerge(ordering, size, free);
        boolean logHasWork = !overfull.isEmpty() || !segments.isEmpty();
        List<F> mixed = manifest.pickMixed(
                MAX_MIXED, free.and(file -> !backoff.isBackingOff(file)));
        if (!mixed.isEmpty() && !(mixedPickedLast && logHasWork)) {
            mixedPickedLast = true;
            return new Pick<>(CompactionReason.SEPARATE, mixed);
        }
        mixedPickedLast = false;
        if (!overfull.isEmpty()) {
            return new Pick<>(CompactionReason.MERGE, overfull);
        }
        return segments.isEmpty() ? null : new Pick<>(CompactionReason.SPLIT, segments);
    }

    private List<F> pickSegments(int enough, Predicate<F> free) {
        return manifest.pickSegments(enough, Math.max(splitSegments, MAX_SEGMENTS), free);
    }
}
