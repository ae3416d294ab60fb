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
    private final Purpose purpose;
    private final String of;
    private final TableMetrics metrics;
    private final long takenIn;

    /**
     * @param of what is meant by the purpose, for the log; may be empty
     * @param takenIn bytes of runs that are merged on the way
     */
    RoutingTask(ColumnFamilyStore table, LifecycleTransaction transaction, long gcBefore,
            Placement placement, Purpose purpose, String of, TableMetrics metrics, long takenIn) {
        super(table, transaction, gcBefore);
        this.placement = placement;
        this.purpose = purpose;
        this.of = of;
        this.metrics = metrics;
        this.takenIn = takenIn;
    }

    @Override
    public CompactionAwareWriter getCompactionAwareWriter(ColumnFamilyStore table,
            Directories directories, LifecycleTransaction transaction, Set<SSTableReader> inputs) {
        LOG.info("{}.{}: {}{}: {} file(s) with {} bytes", table.getKeyspaceName(),
                table.getTableName(), purpose.words, of.isEmpty() ? of : ' ' + of, inputs.size(),
                SSTableReader.getTotalBytes(inputs));
        return new RoutingCompactionWriter(table, directories, transaction, inputs, placement,
                written -> metrics.wrote(purpose, written, takenIn));
    }
}
