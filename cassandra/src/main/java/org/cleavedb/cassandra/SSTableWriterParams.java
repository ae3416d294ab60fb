package org.cleavedb.cassandra;

import java.util.Collection;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.commitlog.IntervalSet;
import org.apache.cassandra.db.lifecycle.LifecycleNewTracker;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableWriter;
import org.apache.cassandra.io.sstable.metadata.MetadataCollector;
import org.apache.cassandra.utils.TimeUUID;

/** The parameters with which Cassandra asks for a new SSTable, kept to create several by them. */
final class SSTableWriterParams {
    /** Keys added to each estimate, for the uneven rest of an even spread and small memtables. */
    private static final int EXTRA_KEYS = 128;

    Descriptor descriptor;
    long keys;
    long repairedAt;
    TimeUUID pendingRepair;
    boolean isTransient;
    IntervalSet<CommitLogPosition> commitLog;
    int level;
    SerializationHeader header;
    Collection<Index.Group> indexes;
    LifecycleNewTracker transaction;

    /** @param isFirst true if no other SSTable of this kind was opened for the same stream */
    SSTableWriter open(ColumnFamilyStore table, Descriptor descriptor, Role role,
            Placement placement, boolean isFirst) {
        // All SSTables of a flush cover the same part of the commit log. The transaction finishes
        // all or none of them, so a replay may skip that part if it finds any one of them.
        MetadataCollector collector = new MetadataCollector(table.metadata().comparator)
                .commitLogIntervals(commitLog != null ? commitLog : IntervalSet.empty())
                .sstableLevel(role.kind == Role.Kind.PRIMARY ? level : 0);
        return descriptor.getFormat().getWriterFactory().builder(descriptor)
                .setKeyCount(keysOf(role, placement, isFirst))
                .setRepairedAt(repairedAt)
                .setPendingRepair(pendingRepair)
                .setTransientSSTable(isTransient)
                .setTableMetadataRef(table.metadata)
                .setMetadataCollector(collector)
                .setSerializationHeader(header)
                .addDefaultComponents(indexes)
                .setSecondaryIndexGroups(indexes)
                .addComponents(RoleTags.components())
                .build(transaction, table);
    }

    /**
     * The estimated number of keys, which sizes the Bloom filter. A flush spreads keys evenly over
     * tokens. A stream may bring copies of one side only and, in a repair, of one range, which lies
     * in one segment. If there are several segments, each further one has room for twice its even
     * share: with room for all keys in each, filters would take many times the memory.
     */
    long keysOf(Role role, Placement placement, boolean isFirst) {
        boolean isFlush = commitLog != null;
        if (isFlush) {
            return EXTRA_KEYS + (long) (keys * shareOf(role, placement));
        }
        int parts = role.kind == Role.Kind.SEGMENT
                ? placement.shards() : Math.max(1, placement.groups());
        return isFirst ? keys : Math.min(keys, EXTRA_KEYS + 2 * keys / parts);
    }

    private static double shareOf(Role role, Placement placement) {
        double ofPrimary = placement.primaryShare();
        switch (role.kind) {
            case PRIMARY:
                return ofPrimary;
            case SEGMENT:
                return (1 - ofPrimary) / placement.shards();
            default:
                return (1 - ofPrimary) / Math.max(1, placement.groups());
        }
    }
}
