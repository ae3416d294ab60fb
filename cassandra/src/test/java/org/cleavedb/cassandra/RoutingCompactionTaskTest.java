package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.compaction.ActiveCompactionsTracker;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RoutingCompactionTaskTest {
    private final Placement placement = new Placement("node",
            new TreeMap<>(Map.of(new Murmur3Partitioner.LongToken(0), Placement.PRIMARY)),
            List.of(), 1);

    @TempDir
    Path folder;

    /**
     * On a full disk, Cassandra takes all SSTables but one out of a compaction before it fails.
     * Only that one used to be reported, so that the others were tried again at once.
     */
    @Test
    void allFilesHaveFailedIfTheDiskIsFull() {
        try (OfflineTable table = new OfflineTable(folder)) {
            Set<SSTableReader> mixed =
                    Set.of(table.writeLive(1), table.writeLive(2), table.writeLive(3));
            Set<SSTableReader> failed = new HashSet<>();
            double share = DatabaseDescriptor.getMaxSpaceForCompactionsPerDrive();
            DatabaseDescriptor.setMaxSpaceForCompactionsPerDrive(0);
            // Without a node, Cassandra's pools of threads have no size.
            DatabaseDescriptor.setConcurrentCompactors(1);
            DatabaseDescriptor.setConcurrentValidations(1);
            try (LifecycleTransaction transaction =
                    table.store.getTracker().tryModify(mixed, OperationType.COMPACTION)) {
                RoutingCompactionTask task = new RoutingCompactionTask(table.store, transaction, 0,
                        placement, CompactionReason.SEPARATE, "", TableMetrics.of(table.store), 0)
                        .onFailure(failed::addAll);
                assertThrows(RuntimeException.class,
                        () -> task.execute(ActiveCompactionsTracker.NOOP));
            } finally {
                DatabaseDescriptor.setMaxSpaceForCompactionsPerDrive(share);
            }
            assertEquals(mixed, failed);
        }
    }
}
