package org.cleavedb.cassandra;

import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.CompactionTask;
import org.apache.cassandra.db.compaction.writers.CompactionAwareWriter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A compaction as Cassandra does it, tombstones, expiry and purging included, but for where each
 * partition is written to.
 */
final class RoutingTask extends CompactionTask {
    private static final Logger LOG = LoggerFactory.getLogger(RoutingTask.class);

    private final Placement placement;
    private final String purpose;

    RoutingTask(ColumnFamilyStore table, LifecycleTransaction transaction, long gcBefore,
            Placement placement, String purpose) {
        super(table, transaction, gcBefore);
        this.placement = placement;
        this.purpose = purpose;
    }

    @Override
    public CompactionAwareWriter getCompactionAwareWriter(ColumnFamilyStore table,
            Directories directories, LifecycleTransaction transaction, Set<SSTableReader> inputs) {
        LOG.info("{}.{}: {}, {} file(s) with {} bytes", table.getKeyspaceName(),
                table.getTableName(), purpose, inputs.size(), SSTableReader.getTotalBytes(inputs));
        return new RoutingCompactionWriter(table, directories, transaction, inputs, placement);
    }
}
