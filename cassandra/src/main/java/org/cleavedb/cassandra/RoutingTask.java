package org.cleavedb.cassandra;

import java.util.Set;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.ActiveCompactionsTracker;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
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
    private Consumer<Set<SSTableReader>> failed = files -> { };

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

    /** @param told gets the files that could not be rewritten */
    RoutingTask tellingFailure(Consumer<Set<SSTableReader>> told) {
        failed = told;
        return this;
    }

    @Override
    protected int executeInternal(ActiveCompactionsTracker tracker) {
        try {
            return super.executeInternal(tracker);
        } catch (CompactionInterruptedException stopped) {
            // Somebody needs the files now; that is no reason to leave them alone afterwards.
            throw stopped;
        } catch (RuntimeException | Error failure) {
            failed.accept(transaction.originals());
            throw failure;
        }
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
