package org.cleavedb.cassandra;

import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.cassandra.config.CassandraRelevantProperties;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * Whether rewriting a file is likely to drop enough of its tombstones and expired data. Cassandra's
 * own estimate is about a file that is rewritten alone: any file beside it in the ring may hold
 * what its tombstones hide. Of ours, most do not, or are merged along with it.
 *
 * <p>It decides when a file is rewritten, never what is dropped: that is Cassandra's to find out
 * for each partition.
 */
final class TombstoneEstimate {
    private final ColumnFamilyStore table;
    private final float threshold;
    private final long leastAgeMillis;
    private final boolean ignoresOverlaps;

    /**
     * @param threshold the share of droppable data that is enough
     * @param leastAgeMillis of a file; else what cannot be dropped yet would be rewritten over and
     *     over
     */
    TombstoneEstimate(ColumnFamilyStore table, float threshold, long leastAgeMillis,
            boolean ignoresOverlaps) {
        this.table = table;
        this.threshold = threshold;
        this.leastAgeMillis = leastAgeMillis;
        this.ignoresOverlaps = ignoresOverlaps;
    }

    /** @param inTheWay whether this other file may hold the same partitions, and stays behind */
    boolean isWorthDropping(SSTableReader file, Predicate<SSTableReader> inTheWay, long gcBefore) {
        boolean neverPurges = table.getNeverPurgeTombstones()
                || CassandraRelevantProperties.NEVER_PURGE_TOMBSTONES.getBoolean();
        if (neverPurges
                || System.currentTimeMillis() < file.getDataCreationTime() + leastAgeMillis) {
            return false;
        }
        double droppable = file.getEstimatedDroppableTombstoneRatio(gcBefore);
        return droppable > threshold
                && (ignoresOverlaps || droppable * shareAlone(file, inTheWay) > threshold);
    }

    /** How many of its partitions are in no file that is in the way, from 0 to 1. */
    private double shareAlone(SSTableReader file, Predicate<SSTableReader> inTheWay) {
        // What is newer than all of this file hides nothing that this file must go on hiding.
        List<Range<Token>> taken = table.getOverlappingLiveSSTables(List.of(file)).stream()
                .filter(other -> other.getMinTimestamp() <= file.getMaxTimestamp())
                .filter(inTheWay)
                .map(other -> new Range<>(other.getFirst().getToken(), other.getLast().getToken()))
                .collect(Collectors.toList());
        if (taken.isEmpty()) {
            return 1;
        }
        // Too small a file has no samples to tell it by.
        return !file.isEstimationInformative() ? 0 : 1
                - (double) file.estimatedKeysForRanges(taken) / Math.max(1, file.estimatedKeys());
    }
}
