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
 * An estimate whether a compaction of an SSTable will purge enough tombstones and expired data.
 * Cassandra's own estimate assumes that any SSTable with overlapping tokens may hold data that the
 * tombstones hide. With roles, most of them hold other partitions, or are compacted along.
 *
 * <p>The estimate decides when an SSTable is rewritten, never what is purged: Cassandra decides
 * that for each partition.
 */
final class TombstoneEstimate {
    private final ColumnFamilyStore table;
    private final float threshold;
    private final long leastAgeMillis;
    private final boolean ignoresOverlaps;

    /**
     * @param threshold the share of droppable data from which on a compaction is worth while
     * @param leastAgeMillis the least age of an SSTable; without it, an SSTable whose data cannot
     *     be purged yet would be rewritten over and over
     * @param ignoresOverlaps true if overlapping SSTables do not lower the estimate
     */
    TombstoneEstimate(ColumnFamilyStore table, float threshold, long leastAgeMillis,
            boolean ignoresOverlaps) {
        this.table = table;
        this.threshold = threshold;
        this.leastAgeMillis = leastAgeMillis;
        this.ignoresOverlaps = ignoresOverlaps;
    }

    /**
     * True if the compaction is worth while.
     *
     * @param inTheWay accepts SSTables that may hold the same partitions and are not compacted
     *     along
     */
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

    /** The share of partitions that no SSTable in the way may hold, from 0 to 1. */
    private double shareAlone(SSTableReader file, Predicate<SSTableReader> inTheWay) {
        // An SSTable all of whose data is newer holds nothing that these tombstones hide.
        List<Range<Token>> taken = table.getOverlappingLiveSSTables(List.of(file)).stream()
                .filter(other -> other.getMinTimestamp() <= file.getMaxTimestamp())
                .filter(inTheWay)
                .map(other -> new Range<>(other.getFirst().getToken(), other.getLast().getToken()))
                .collect(Collectors.toList());
        if (taken.isEmpty()) {
            return 1;
        }
        // The index summary of a very small SSTable has too few samples for an estimate.
        return !file.isEstimationInformative() ? 0 : 1
                - (double) file.estimatedKeysForRanges(taken) / Math.max(1, file.estimatedKeys());
    }
}
