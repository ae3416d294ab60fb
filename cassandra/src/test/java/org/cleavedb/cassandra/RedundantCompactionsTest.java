package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.ActiveCompactionsTracker;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RedundantCompactionsTest {
    private final Placement placement = new Placement("node",
            new TreeMap<>(Map.of(new Murmur3Partitioner.LongToken(0), Placement.PRIMARY)),
            List.of(), 1);
    private final List<Role> found = new ArrayList<>();
    private final RoleManifest<SSTableReader> manifest = new RoleManifest<>(file -> 0);

    @TempDir
    Path folder;
    private OfflineTable table;
    private SSTableReader file;
    private RedundantCompactions work;

    @BeforeEach
    void openTable() {
        table = new OfflineTable(folder);
        work = new RedundantCompactions(table.store, DecouplingOptions.of(Map.of()), () -> 1,
                manifest, this::inspected, new TombstoneEstimate(table.store, 1, 0, false));
        file = table.writeLive(1);
        manifest.putUnclassified(file);
    }

    private void inspected(SSTableReader inspected, Role role, Placement by) {
        found.add(role);
        manifest.put(inspected, role);
    }

    @AfterEach
    void closeTable() {
        table.close();
    }

    /**
     * After a change of the ring, {@code nodetool cleanup} claims all SSTables of a table for
     * hours. Primary copies used to wait all that time, as the roles of these SSTables were
     * unknown.
     */
    @Test
    void aFileThatIsBusyElsewhereIsNotWaitedFor() {
        assertTrue(work.awaitsRoles(placement));
        try (LifecycleTransaction cleanup =
                table.store.getTracker().tryModify(file, OperationType.CLEANUP)) {
            assertNotNull(cleanup);
            assertFalse(work.awaitsRoles(placement));
            assertNull(work.next(placement, 0));
        }
        assertTrue(work.awaitsRoles(placement));
    }

    /** An inspection claims its SSTable as well, but ends soon. */
    @Test
    void aFileThatIsBeingInspectedIsWaitedFor() {
        AbstractCompactionTask inspection = work.next(placement, 0);
        assertInstanceOf(InspectionTask.class, inspection);
        assertTrue(work.awaitsRoles(placement));
        inspection.execute(ActiveCompactionsTracker.NOOP);
        assertEquals(List.of(Role.PRIMARY), found);
        assertFalse(work.awaitsRoles(placement));
    }

    /** No inspection is possible without the ring. */
    @Test
    void nothingIsWaitedForAsLongAsTheRingIsUnknown() {
        assertFalse(work.awaitsRoles(Placement.UNKNOWN));
    }
}
