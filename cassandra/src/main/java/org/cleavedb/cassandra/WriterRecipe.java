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

/** What Cassandra says about a file that is to be written, kept to open more than one by it. */
final class WriterRecipe {
    /** For the uneven rest of an even spread, and for small memtables. */
    private static final int SPARE_KEYS = 128;

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

    SSTableWriter open(
            ColumnFamilyStore table, Descriptor descriptor, Role role, Placement placement) {
        // Every file of a flush covers the same part of the commit log: they are finished together
        // or not at all, so replay may skip it as soon as one of them is there.
        MetadataCollector collector = new MetadataCollector(table.metadata().comparator)
                .commitLogIntervals(commitLog != null ? commitLog : IntervalSet.empty())
                .sstableLevel(role.kind == Role.Kind.PRIMARY ? level : 0);
        return descriptor.getFormat().getWriterFactory().builder(descriptor)
                .setKeyCount(keysOf(role, placement))
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

    /** For the Bloom filter. Tokens are spread evenly, but a stream may bring one side only. */
    private long keysOf(Role role, Placement placement) {
        boolean isFlush = commitLog != null;
        if (!isFlush) {
            return keys;
        }
        return SPARE_KEYS + (long) (keys * shareOf(role, placement));
    }

    private static double shareOf(Role role, Placement placement) {
        double ofPrimary = placement.primaryShare();
        switch (role.kind) {
            case PRIMARY:
                return ofPrimary;
            case SEGMENT:
                return (1 - ofPrimary) / placement.lanes();
            default:
                return (1 - ofPrimary) / Math.max(1, placement.groups());
        }
    }
}
