package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

/**
 * Two nodes that both hold everything, so each is primary for one half and redundant for the
 * other. Every file must tell the truth about which half it holds, whatever happened to it.
 */
@Tag("quick")
class RolesIT {
    private static final int KEYS = 200;
    private static final String OURS = "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy"
            + "', 'ordering': '2', 'split_segments': '2', 'groups': '2', 'settle_seconds': '0'}";
    private static Cluster cluster;
    private static Cluster.Client client;

    private final Map<Integer, String> expected = new TreeMap<>();
    private String table;
    private TableOnNode first;

    @BeforeAll
    static void startNodes() throws IOException {
        cluster = new Cluster(new ClusterSpec(Path.of("target", "nodes-of-roles"), 2)
                .tokensPerNode(4));
        cluster.wipe();
        cluster.start();
        client = cluster.connect(2);
        client.execute("CREATE KEYSPACE k WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': 2}");
    }

    @AfterAll
    static void stopNodes() throws IOException {
        if (client != null) {
            client.close();
        }
        cluster.close();
    }

    @BeforeEach
    void createTable(TestInfo info) {
        table = info.getTestMethod().orElseThrow().getName().toLowerCase();
        client.execute("CREATE TABLE k." + table
                + " (id int PRIMARY KEY, v text) WITH compaction = " + OURS);
        first = new TableOnNode(cluster.layout(1), "k", table);
    }

    @Test
    void flushSplitAndMergeKeepTheSidesApart() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            writeAndFlush(control);
            assertEquals(1, first.count(Role.Kind.PRIMARY));
            assertEquals(1, first.count(Role.Kind.SEGMENT));
            assertRolesAreTrue(control);
            for (int round = 0; round < 7; round++) {
                writeAndFlush(control);
            }
            Await.until("the log is in order", () -> isInOrder(2));
            assertTrue(first.count(Role.Kind.RUN) > 0, first.tags()::toString);
            assertRolesAreTrue(control);
            assertRowsAreThere();
            Await.until("tags of merged files are gone", () -> first.strayTags().isEmpty());
            assertEquals(0, inspections(), "roles are inherited, not looked for");
        }
    }

    @Test
    void theOrderingOfALiveTableIsChangedByAlter() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            alter(OURS.replace("'ordering': '2'", "'ordering': '9'"));
            for (int round = 0; round < 8; round++) {
                writeAndFlush(control);
            }
            Await.until("more runs than before", () -> first.mostRuns() > 2 && isInOrder(9));
            alter(OURS.replace("'ordering': '2'", "'ordering': '1'"));
            writeAndFlush(control);
            Await.until("one run per group", () -> isInOrder(1));
            assertRolesAreTrue(control);
            assertRowsAreThere();
        }
    }

    @Test
    void filesOfAStockStrategyAreTakenApart() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            alter("{'class': 'SizeTieredCompactionStrategy'}");
            writeAndFlush(control);
            writeAndFlush(control);
            assertFalse(first.allTagged());
            alter(OURS);
            writeAndFlush(control);
            Await.until("all is in order", () -> isInOrder(2));
            assertRolesAreTrue(control);
            alter("{'class': 'LeveledCompactionStrategy'}");
            writeAndFlush(control);
            control.compact("k", table);
            assertRowsAreThere();
            assertFalse(first.allTagged());
        }
    }

    @Test
    void rolesSurviveARestartAndLostTagsAreFoundAgain() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            for (int round = 0; round < 3; round++) {
                writeAndFlush(control);
            }
            Await.until("all is in order", () -> isInOrder(2));
        }
        cluster.stop(1);
        Map<Path, Optional<RoleTag>> before = first.tags();
        long inspections = inspections();
        cluster.start(1);
        try (NodeControl control = cluster.control(1)) {
            assertRolesAreTrue(control);
        }
        assertEquals(before.keySet(), first.tags().keySet());
        assertEquals(inspections, inspections(), "tags are believed after a restart");

        cluster.kill(1);
        int at = 0;
        for (Path data : before.keySet()) {
            Path tag = first.tagFile(data);
            if (at++ % 2 == 0) {
                Files.delete(tag);
            } else {
                Files.write(tag, new byte[] {1, 2, 3});
            }
        }
        cluster.start(1);
        try (NodeControl control = cluster.control(1)) {
            writeAndFlush(control);
            Await.until("all is in order", () -> isInOrder(2));
            assertRolesAreTrue(control);
            assertRowsAreThere();
        }
    }

    private boolean isInOrder(int ordering) throws IOException {
        return first.allTagged() && first.count(Role.Kind.SEGMENT) < 2
                && first.mostRuns() <= ordering;
    }

    private static void alter(String compaction, String table) {
        client.execute("ALTER TABLE k." + table + " WITH compaction = " + compaction);
    }

    private void alter(String compaction) {
        alter(compaction, table);
    }

    private void writeAndFlush(NodeControl control) {
        for (int id = 0; id < KEYS; id++) {
            String value = "v" + id + "." + expected.size();
            client.session().execute(new SimpleStatement(
                    "INSERT INTO k." + table + " (id, v) VALUES (?, ?)", id, value)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
            expected.put(id, value);
        }
        control.flush("k", table);
    }

    private void assertRowsAreThere() {
        Map<Integer, String> found = new TreeMap<>();
        List<Row> rows = client.session().execute(new SimpleStatement("SELECT * FROM k." + table)
                .setConsistencyLevel(ConsistencyLevel.ALL)).all();
        rows.forEach(row -> found.put(row.getInt("id"), row.getString("v")));
        assertEquals(expected, found);
    }

    /** Node 1 keeps no key on a side where it does not belong. */
    private void assertRolesAreTrue(NodeControl control) throws IOException {
        int primaries = 0;
        for (int id = 0; id < KEYS; id++) {
            String key = Integer.toString(id);
            boolean isPrimary = firstReplica(control, key).startsWith("127.0.0.1");
            primaries += isPrimary ? 1 : 0;
            for (Path file : first.filesOf(control, key)) {
                RoleTag tag = first.tag(file).orElseThrow(() -> new AssertionError(file));
                assertEquals(isPrimary, tag.role.kind == Role.Kind.PRIMARY, file + " key " + key);
                assertTrue(tag.role.kind != Role.Kind.RUN
                        || tag.role.group.startsWith("127.0.0.2:"), tag.role.toString());
            }
        }
        assertTrue(primaries > 0 && primaries < KEYS, "both sides are there");
    }

    private String firstReplica(NodeControl control, String key) {
        List<?> replicas = (List<?>) control.invoke(
                "org.apache.cassandra.db:type=StorageService", "getNaturalEndpointsWithPort",
                new Object[] {"k", table, key},
                new String[] {"java.lang.String", "java.lang.String", "java.lang.String"});
        return replicas.get(0).toString();
    }

    private long inspections() throws IOException {
        return Files.readAllLines(cluster.layout(1).log()).stream()
                .filter(line -> line.contains("was inspected") && line.contains("/" + table + "-"))
                .count();
    }
}
