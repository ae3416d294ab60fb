package org.cleavedb.cassandra;

import java.io.IOException;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.ActiveCompactionsTracker;
import org.apache.cassandra.db.compaction.CompactionInfo;
import org.apache.cassandra.db.compaction.CompactionInterruptedException;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.compaction.writers.CompactionAwareWriter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.KeyIterator;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.TimeUUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A background task that finds the role of one SSTable by its keys. It reads only the index, and
 * stops at the first key that shows the SSTable to be mixed.
 */
final class InspectionTask extends AbstractCompactionTask {
    private static final Logger LOG = LoggerFactory.getLogger(InspectionTask.class);

    private final Placement placement;
    private final Consumer<Role> found;
    private final Runnable ended;

    /**
     * @param found gets the role, or null for a mixed SSTable
     * @param ended is called at the end, also after a failure
     */
    InspectionTask(ColumnFamilyStore table, LifecycleTransaction transaction, Placement placement,
            Consumer<Role> found, Runnable ended) {
        super(table, transaction);
        this.placement = placement;
        this.found = found;
        this.ended = ended;
    }

    @Override
    protected int executeInternal(ActiveCompactionsTracker tracker) {
        try {
            inspect(tracker);
        } finally {
            ended.run();
        }
        // Nothing was replaced. The caller closes the transaction, which releases the SSTable.
        return 1;
    }

    private void inspect(ActiveCompactionsTracker tracker) {
        SSTableReader sstable = transaction.onlyOne();
        Inspection inspection = new Inspection(sstable);
        tracker.beginCompaction(inspection);
        try {
            Role role = lookThrough(inspection);
            LOG.info("The replica role of {} is {}, according to an inspection of its keys",
                    sstable.getFilename(), role == null ? "mixed" : role);
            found.accept(role);
        } finally {
            tracker.finishCompaction(inspection);
        }
    }

    /** Marks an unreadable SSTable, so that it is not inspected again and again before others. */
    private static Role lookThrough(Inspection inspection) {
        try {
            return inspection.role();
        } catch (CompactionInterruptedException stopped) {
            throw stopped;
        } catch (IOException | RuntimeException | FSError failure) {
            // Cassandra's iterators report damage in many ways: they wrap exceptions, or fail on
            // impossible lengths.
            inspection.sstable.markSuspect();
            throw new IllegalStateException("The keys of " + inspection.sstable.getFilename()
                    + " cannot be read (" + failure + "). The SSTable is excluded from compactions "
                    + "until the node restarts. Run `nodetool scrub` on the table", failure);
        }
    }

    @Override
    protected void runMayThrow() {
        throw new IllegalStateException("an inspection is executed, not run");
    }

    @Override
    public CompactionAwareWriter getCompactionAwareWriter(ColumnFamilyStore table,
            Directories directories, LifecycleTransaction txn, Set<SSTableReader> inputs) {
        throw new IllegalStateException("an inspection writes no SSTable");
    }

    /** The progress of an inspection, which operators see and stop like that of a compaction. */
    private final class Inspection extends CompactionInfo.Holder {
        private final SSTableReader sstable;
        private final TimeUUID id = TimeUUID.Generator.nextTimeUUID();
        private volatile long keysRead;

        Inspection(SSTableReader sstable) {
            this.sstable = sstable;
        }

        Role role() throws IOException {
            if (placement.isOnePiece(sstable.getFirst().getToken(), sstable.getLast().getToken())) {
                return Role.of(placement, placement.placeOf(sstable.getFirst().getToken()));
            }
            int first = placement.placeOf(sstable.getFirst().getToken());
            boolean oneGroup = true;
            try (KeyIterator keys = sstable.keyIterator()) {
                while (keys.hasNext()) {
                    DecoratedKey key = keys.next();
                    int place = placement.placeOf(key.getToken());
                    if ((place == Placement.PRIMARY) != (first == Placement.PRIMARY)) {
                        return null;
                    }
                    oneGroup &= place == first;
                    keysRead++;
                    if (isStopRequested()) {
                        throw new CompactionInterruptedException(getCompactionInfo());
                    }
                }
            }
            return oneGroup ? Role.of(placement, first) : Role.SEGMENT;
        }

        @Override
        public CompactionInfo getCompactionInfo() {
            return new CompactionInfo(cfs.metadata(), OperationType.COMPACTION, keysRead,
                    Math.max(keysRead, sstable.estimatedKeys()), 0, CompactionInfo.Unit.KEYS, id,
                    Set.of(sstable), null);
        }

        @Override
        public boolean isGlobal() {
            return false;
        }
    }
}
