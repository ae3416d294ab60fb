package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Tests other features of a schema together with the strategy: views, change data capture, other
 * compressors and memtables, batches, conditional writes, and both layouts of redundant copies.
 */
@Tag("quick")
class SchemaFeaturesIT {
    private static final int ROWS = 100;
    private static final String OPTIONS =
            "'ordering': '2', 'split_segments': '2', 'groups': '2', 'settle_seconds': '0'}";
    private static final String OURS = "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy"
            + "', " + OPTIONS;
    private static final String TREES = "{'class': 'org.cleavedb.cassandra."
            + "ReplicaDecouplingStrategy', 'redundant': 'trees', 'sstable_size_in_mb': '1', "
            + "'settle_seconds': '0'}";
    private static final List<String> NAMES = IntStream.range(0, ROWS)
            .mapToObj(Integer::toString).collect(Collectors.toList());
    private static Cluster cluster;
    private static Cluster.Client client;

    @BeforeAll
    static void startNodes() throws IOException {
        cluster = SharedNodes.cluster();
        client = SharedNodes.connect(1, "schemas");
    }

    @Test
    void materializedViewsFollowTheirTable() throws IOException {
        client.execute("CREATE TABLE schemas.base (id int PRIMARY KEY, colour int)"
                + " WITH compaction = " + OURS);
        client.execute("CREATE MATERIALIZED VIEW schemas.by_colour AS SELECT * FROM schemas.base"
                + " WHERE colour IS NOT NULL AND id IS NOT NULL PRIMARY KEY (colour, id)"
                + " WITH compaction = " + OURS);
        Map<Integer, Integer> expected = new TreeMap<>();
        for (int round = 0; round < 5; round++) {
            for (int id = 0; id < ROWS; id++) {
                if ((id + round) % 7 == 0) {
                    write("DELETE FROM schemas.base WHERE id = " + id);
                    expected.remove(id);
                } else {
                    write("UPDATE schemas.base SET colour = " + (id * round) % 5
                            + " WHERE id = " + id);
                    expected.put(id, (id * round) % 5);
                }
            }
            flush("base", "by_colour");
            Await.until("the view shows what the table holds", () ->
                    expected.equals(rows("by_colour")) && expected.equals(rows("base")));
        }
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            try (NodeControl control = cluster.control(node)) {
                new RoleCheck(cluster, node, "schemas", "base").awaitTrue(control, NAMES);
                new RoleCheck(cluster, node, "schemas", "by_colour")
                        .awaitTrue(control, List.of("0", "1", "2", "3", "4"));
                control.compact("schemas", "base", "by_colour");
            }
        }
        assertEquals(expected, rows("by_colour"));
    }

    private static Map<Integer, Integer> rows(String table) {
        Map<Integer, Integer> rows = new TreeMap<>();
        client.session().execute(new SimpleStatement("SELECT id, colour FROM schemas." + table)
                .setConsistencyLevel(ConsistencyLevel.ALL))
                .forEach(row -> rows.put(row.getInt("id"), row.getInt("colour")));
        return rows;
    }

    @Test
    void changesOfATableAreCaptured() throws IOException {
        assertWorks("captured", "cdc = true");
        long links = cluster.layout(1).capturedChanges();
        assertTrue(links > 0, "segments of the commit log are kept for who captures changes");
    }

    @Test
    void compressorsAndMemtablesOfOtherKinds() throws IOException {
        assertWorks("zstd", "compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 16}");
        assertWorks("plain", "compression = {'enabled': false}");
        assertWorks("trie", "memtable = 'trie'");
    }

    private static void assertWorks(String table, String option) throws IOException {
        client.execute("CREATE TABLE schemas." + table + " (id int PRIMARY KEY, colour int) WITH "
                + option + " AND compaction = " + OURS);
        writeRounds(table, 4);
        assertRoundsAreThere(table, 4);
    }

    private static void writeRounds(String table, int rounds) throws IOException {
        for (int round = 0; round < rounds; round++) {
            for (int id = 0; id < ROWS; id++) {
                write("INSERT INTO schemas." + table + " (id, colour) VALUES (" + id + ", "
                        + (id + round) + ")");
            }
            flush(table);
        }
    }

    private static void assertRoundsAreThere(String table, int rounds) throws IOException {
        Map<Integer, Integer> expected = new TreeMap<>();
        IntStream.range(0, ROWS).forEach(id -> expected.put(id, id + rounds - 1));
        assertEquals(expected, rows(table));
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            try (NodeControl control = cluster.control(node)) {
                RoleCheck roles = new RoleCheck(cluster, node, "schemas", table);
                roles.awaitFollowed(control);
                roles.awaitTrue(control, NAMES);
            }
        }
    }

    @Test
    void loggedBatchesAndConditionsReachTablesOfBothLayouts() throws IOException {
        client.execute("CREATE TABLE schemas.left (id int PRIMARY KEY, colour int)"
                + " WITH compaction = " + OURS);
        client.execute("CREATE TABLE schemas.right (id int PRIMARY KEY, colour int)"
                + " WITH compaction = " + TREES);
        Map<Integer, Integer> expected = new TreeMap<>();
        for (int round = 0; round < 4; round++) {
            for (int id = 0; id < ROWS; id += 5) {
                int colour = id + round;
                write("BEGIN BATCH UPDATE schemas.left SET colour = " + colour + " WHERE id = " + id
                        + "; UPDATE schemas.right SET colour = " + colour + " WHERE id = " + id
                        + "; APPLY BATCH");
                boolean applied = client.execute("UPDATE schemas.right SET colour = ? WHERE id = ?"
                        + " IF colour = ?", colour + 1, id, colour).get(0).getBool("[applied]");
                assertTrue(applied);
                expected.put(id, colour);
            }
            flush("left", "right");
        }
        assertEquals(expected, rows("left"));
        expected.replaceAll((id, colour) -> colour + 1);
        assertEquals(expected, rows("right"));
    }

    @Test
    void aTreePerSourceKeepsTheSidesApartToo() throws IOException {
        client.execute("CREATE TABLE schemas.trees (id int PRIMARY KEY, colour int)"
                + " WITH compaction = " + TREES);
        writeRounds("trees", 8);
        assertRoundsAreThere("trees", 8);
        TableOnNode files = new TableOnNode(cluster.layout(1), "schemas", "trees");
        assertEquals(0, files.count(Role.Kind.SEGMENT));
        assertTrue(files.count(Role.Kind.RUN) > 0);
        try (NodeControl control = cluster.control(1)) {
            Await.until("the tree is in order: it is a leveled one", () -> {
                write("INSERT INTO schemas.trees (id, colour) VALUES (0, 7)");
                control.flush("schemas", "trees");
                return (long) control.attribute("org.cleavedb.cassandra:type=ReplicaDecoupling,"
                        + "keyspace=schemas,table=trees", "BytesMerged") > 0;
            });
        }

        // From trees to the log and back, existing SSTables are classified again.
        for (String layout : List.of(OURS, TREES)) {
            client.execute("ALTER TABLE schemas.trees WITH compaction = " + layout);
            writeRounds("trees", 3);
            assertRoundsAreThere("trees", 3);
        }
        onlyOneSideOfRepairedDataIsRewritten();
    }

    private static void onlyOneSideOfRepairedDataIsRewritten() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            control.repair("schemas", true, "trees");
            control.compact("schemas", "trees");
        }
        assertRoundsAreThere("trees", 3);
    }

    private static void write(String cql) {
        client.session().execute(
                new SimpleStatement(cql).setConsistencyLevel(ConsistencyLevel.ALL));
    }

    private static void flush(String... tables) throws IOException {
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            try (NodeControl control = cluster.control(node)) {
                control.flush("schemas", tables);
            }
        }
    }
}
