package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.metrics.RestorableMeter;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RoleTrackerTest {
    private final Placement placement = new Placement("node",
            new TreeMap<>(Map.of(new Murmur3Partitioner.LongToken(0), Placement.PRIMARY)),
            List.of(), 1);

    @TempDir
    Path folder;
    private OfflineTable table;
    private RoleManifest<SSTableReader> manifest;
    private BufferedLeveledStrategy primary;
    private RoleTracker roles;

    @BeforeEach
    void openTable() {
        table = new OfflineTable(folder);
        StockStrategies strategies =
                new StockStrategies(table.store, DecouplingOptions.of(Map.of()), () -> 1);
        primary = (BufferedLeveledStrategy) strategies.primary();
        manifest = new RoleManifest<>(file -> 0);
        roles = new RoleTracker(
                () -> placement, manifest, strategies, TableMetrics.of(table.store));
    }

    @AfterEach
    void closeTable() {
        table.close();
    }

    private SSTableReader writePrimary() {
        SSTableReader file = table.write(1);
        RoleTags.attach(file, new RoleTag(Role.PRIMARY, placement.digest()));
        roles.add(file);
        return file;
    }

    /** Makes the table of contents a dangling link, which cannot be written. */
    private void breakTableOfContents(SSTableReader file) throws Exception {
        Path contents = file.descriptor.fileFor(SSTableFormat.Components.TOC).toPath();
        Files.delete(contents);
        Files.createSymbolicLink(contents, folder.resolve("missing").resolve("TOC.txt"));
    }

    @Test
    void theOutputsOfACompactionInheritTheRoleOfItsInputs() {
        SSTableReader input = writePrimary();
        SSTableReader output = table.write(2);
        roles.replace(List.of(input), List.of(output));
        assertEquals(Set.of(output), primary.getSSTables());
        assertEquals(Role.PRIMARY, manifest.role(output));
        assertEquals(Optional.of(Role.PRIMARY),
                RoleTags.read(output.descriptor).map(tag -> tag.role));
    }

    /**
     * Cassandra reports a table of contents that cannot be written as an error, not as an
     * exception. It used to break off the notification after the inputs had been forgotten and
     * before the strategy had been told of the outputs. These were not compacted until a restart.
     */
    @Test
    void aTagThatCannotBeAttachedHidesNoFileFromItsLayout() throws Exception {
        SSTableReader input = writePrimary();
        SSTableReader output = table.write(2);
        breakTableOfContents(output);
        roles.replace(List.of(input), List.of(output));
        assertEquals(Set.of(output), primary.getSSTables());
        assertEquals(Set.of(output), manifest.all());
        assertEquals(Role.PRIMARY, manifest.role(output));
    }

    /** An inspection, the other source of a role, had the same defect. */
    @Test
    void anInspectedFileReachesItsLayoutEvenIfItsTagCannotBeAttached() throws Exception {
        SSTableReader file = table.write(1);
        roles.add(file);
        assertEquals(Set.of(), primary.getSSTables());
        breakTableOfContents(file);
        roles.inspected(file, Role.PRIMARY, placement);
        assertEquals(Set.of(file), primary.getSSTables());
    }

    /** It counted as a read of a file without a role if it came while the file was entered. */
    @Test
    void aReadWhileAFileIsEnteredCountsForItsRoleOrNotAtAll() {
        TableMetrics metrics = TableMetrics.of(table.store);
        SSTableReader file = table.write(1);
        RoleTags.attach(file, new RoleTag(Role.PRIMARY, placement.digest()));
        file.overrideReadMeter(new MeterOfABusyFile());
        roles.add(file);
        assertEquals(0, metrics.filesRead(null));
        roles.creditReads();
        assertEquals(1, metrics.filesRead(Role.PRIMARY.kind));
        assertEquals(0, metrics.filesRead(null));
    }

    /** A meter of a file that is read before each look at the meter. */
    private static final class MeterOfABusyFile extends RestorableMeter {
        @Override
        public long count() {
            mark();
            return super.count();
        }
    }
}
