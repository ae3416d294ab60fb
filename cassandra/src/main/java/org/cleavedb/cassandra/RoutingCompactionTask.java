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
 * A compaction that writes each partition to an SSTable of its place. In everything else, such as
 * tombstones, expiry and purging, it is Cassandra's own compaction.
 */
final class RoutingCompactionTask extends CompactionTask {
    private static final Logger LOG = LoggerFactory.getLogger(RoutingCompactionTask.class);

    private final Placement placement;
    private final CompactionReason reason;
    private final String target;
    private final TableMetrics metrics;
    private final long mergedRunBytes;
    private Consumer<Set<SSTableReader>> onFailure = files -> { };

    /**
     * @param target what the reason refers to, such as a group; for the log, may be empty
     * @param mergedRunBytes the bytes of runs that a split merges with its output
     */
    RoutingCompactionTask(ColumnFamilyStore table, LifecycleTransaction transaction, long gcBefore,
            Placement placement, CompactionReason reason, String target, TableMetrics metrics,
            long mergedRunBytes) {
        super(table, transaction, gcBefore);
        this.placement = placement;
        this.reason = reason;
        this.target = target;
        this.metrics = metrics;
        this.mergedRunBytes = mergedRunBytes;
    }

    /** @param callback gets the SSTables that could not be rewritten */
    RoutingCompactionTask onFailure(Consumer<Set<SSTableReader>> callback) {
        onFailure = callback;
        return this;
    }

    @Override
    protected int executeInternal(ActiveCompactionsTracker tracker) {
        // If the disk lacks room, Cassandra takes one SSTable after the other out of the
        // transaction before it gives up.
        Set<SSTableReader> wanted = Set.copyOf(transaction.originals());
        try {
            return super.executeInternal(tracker);
        } catch (CompactionInterruptedException stopped) {
            // Another operation needs the SSTables now, which is no reason for a backoff later.
            throw stopped;
        } catch (RuntimeException | Error failure) {
            onFailure.accept(wanted);
            throw failure;
        }
    }

    @Override
    public CompactionAwareWriter getCompactionAwareWriter(ColumnFamilyStore table,
            Directories directories, LifecycleTransaction transaction, Set<SSTableReader> inputs) {
        LOG.info("{}.{}: {}{}: {} SSTable(s) with {} bytes", table.getKeyspaceName(),
                table.getTableName(), reason.description, target.isEmpty() ? "" : ' ' + target,
                inputs.size(), SSTableReader.getTotalBytes(inputs));
        return new RoutingCompactionWriter(table, directories, transaction, inputs, placement,
                written -> metrics.countWritten(reason, written, mergedRunBytes));
    }
}
