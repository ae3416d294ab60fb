package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

/**
 * Tests roles on two nodes that both hold all data: each has the primary copies of one half and
 * redundant copies of the other. Every SSTable must have the right role, whatever happened to it.
 */
@Tag("quick")
class RolesIT {
    private static final int KEYS = 200;
    /** Each node has four ranges, which take turns. */
    private static final int LANES = 4;
    private static final String OURS = "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy"
            + "', 'ordering': '2', 'split_segments': '2', 'groups': '2', 'settle_seconds': '0'}";
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());
    private static final String STORAGE = "org.apache.cassandra.db:type=StorageService";
    private static Cluster cluster;
    private static Cluster.Client client;

    private final Map<Integer, String> expected = new TreeMap<>();
    /** A counter that makes each value different, so that a read of an old one is noticed. */
    private int written;
    private String table;
    private TableOnNode first;

    @BeforeAll
    static void startNodes() throws IOException {
        cluster = SharedNodes.cluster();
        client = SharedNodes.connect(2, "roles");
    }

    @BeforeEach
    void createTable(TestInfo info) {
        table = info.getTestMethod().orElseThrow().getName().toLowerCase();
        client.execute("CREATE TABLE roles." + table
                + " (id int PRIMARY KEY, v text) WITH compaction = " + OURS);
        first = new TableOnNode(cluster.layout(1), "roles", table);
    }

    @Test
    void flushSplitAndMergeKeepTheSidesApart() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            writeAndFlush(control);
            assertEquals(1, first.count(Role.Kind.PRIMARY));
            assertEquals(LANES, first.count(Role.Kind.SEGMENT));
            assertRolesAreTrue(control);
            for (int round = 0; round < 7; round++) {
                writeAndFlush(control);
            }
            Await.until("the log is in order", () -> isInOrder(2));
            assertTrue(first.count(Role.Kind.RUN) > 0, first.tags()::toString);
            assertRolesAreTrue(control);
            assertRowsAreThere();
            assertNumbersAreThose(control);
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
            Await.until("more runs than before", () -> first.maxRuns() > 2 && isInOrder(9));
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
            assertRowsAreOnTheFirstAlone();
            alter("{'class': 'LeveledCompactionStrategy'}");
            writeAndFlush(control);
            control.compact("roles", table);
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
        long ringChanges = logged("the ring or its replication has changed");
        restart(1);
        assertEquals(before.keySet(), first.tags().keySet());
        assertViewsAreThere();
        try (NodeControl control = cluster.control(1)) {
            assertRolesAreTrue(control);
            writeAndFlush(control);
            Await.until("all is in order", () -> isInOrder(2));
        }
        assertEquals(inspections, inspections(), "tags are believed after a restart");
        assertEquals(ringChanges, logged("the ring or its replication has changed"));

        cluster.kill(1);
        int at = 0;
        for (Path data : first.tags().keySet()) {
            Path tag = first.tagFile(data);
            damage(tag, at++ % 4);
        }
        restart(1);
        try (NodeControl control = cluster.control(1)) {
            writeAndFlush(control);
            Await.until("all is in order", () -> isInOrder(2));
            assertRolesAreTrue(control);
            assertRowsAreThere();
        }
    }

    /**
     * An inspection that met a damaged index failed with an error that it did not expect, so the
     * file was not marked, came first at each look for work, and the log was never split again. Now
     * it is left out, and the others are sorted.
     *
     * <p>What was unclassified when the node found its ring was counted twice, so that the progress
     * began with one half. Now it is that of the sound file, by its bytes.
     */
    @Test
    void aDamagedIndexKeepsItsOwnFileOnlyFromBeingSorted() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            alter("{'class': 'SizeTieredCompactionStrategy'}");
            writeAndFlush(control);
            writeAndFlush(control);
            alter(OURS.replace("}", ", 'enabled': 'false'}"));
            assertEquals(2, first.tags().size());
            assertFalse(first.allTagged());
        }
        cluster.stop(1);
        List<Path> files = List.copyOf(first.tags().keySet());
        double left = Files.size(files.get(0));
        double all = left + Files.size(files.get(1));
        damageIndex(files.get(0));
        restart(1);
        try (NodeControl control = cluster.control(1)) {
            String bean = "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=roles,table="
                    + table;
            Await.until("the mixed file is separated", () -> {
                // After a failure, a node asks for compactions only with a flush, or much later.
                control.invoke(STORAGE, "enableAutoCompaction",
                        new Object[] {"roles", new String[] {table}},
                        new String[] {"java.lang.String", "[Ljava.lang.String;"});
                return first.count(Role.Kind.RUN) > 0
                        && !first.tags().containsKey(files.get(1));
            });
            assertTrue(first.tags().containsKey(files.get(0)), first.tags()::toString);
            assertEquals(1, control.attribute(bean, "FilesToInspect"));
            assertEquals(0, control.attribute(bean, "MixedFiles"));
            assertEquals(1 - left / all,
                    (double) control.attribute(bean, "ResplitProgress"), 0.01);
        }
        assertTrue(logged("cannot be read") > 0, "the operator is told");
        client.execute("DROP TABLE roles." + table);
    }

    /** Damages the index so that no entry but the first can be read. */
    private static void damageIndex(Path data) throws IOException {
        Path index = data.resolveSibling(
                data.getFileName().toString().replace("-Data.db", "-Index.db"));
        byte[] bytes = Files.readAllBytes(index);
        // The length of a key, the key, its position and the size of what there is to its rows.
        int entry = Short.BYTES + Integer.BYTES + 1 + 1;
        Arrays.fill(bytes, entry, bytes.length, (byte) -1);
        Files.write(index, bytes);
    }

    /** A node that finds the strategy in its schema has the virtual tables from its start. */
    private void assertViewsAreThere() {
        try (Cluster.Client restarted = cluster.connect(1)) {
            assertEquals(1, restarted.execute("SELECT * FROM cleavedb_views.replica_tables WHERE "
                    + "keyspace_name = 'roles' AND table_name = ?", table).size());
        }
    }

    /**
     * Deletes or damages a tag and keeps its time of 0. The node may have been killed while it
     * deleted this SSTable. It would then refuse to start if any component were newer than it
     * recorded.
     */
    private static void damage(Path tag, int kind) throws IOException {
        byte[] bytes = Files.readAllBytes(tag);
        FileTime time = Files.getLastModifiedTime(tag);
        switch (kind) {
            case 0:
                Files.delete(tag);
                return;
            case 1:
                Files.write(tag, Arrays.copyOf(bytes, bytes.length / 2));
                break;
            case 2:
                // The role is another one, but the CRC is that of the old role.
                Files.writeString(tag, new String(bytes, StandardCharsets.UTF_8)
                        .replaceFirst("kind \\w+", "kind SEGMENT")
                        .replaceFirst("group .*", "group "));
                break;
            default:
                Files.write(tag, new byte[RoleTag.MAX_LENGTH + 1]);
        }
        Files.setLastModifiedTime(tag, time);
    }

    /** The JMX bean must agree with the files on disk. */
    private void assertNumbersAreThose(NodeControl control) {
        String bean = "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=roles,table=" + table;
        Await.until("the numbers fit", () ->
                (int) control.attribute(bean, "PrimaryFiles") == first.count(Role.Kind.PRIMARY)
                && (int) control.attribute(bean, "Segments") == first.count(Role.Kind.SEGMENT)
                && (int) control.attribute(bean, "Runs") == first.count(Role.Kind.RUN)
                && (int) control.attribute(bean, "MaxRunsPerGroup") == first.maxRuns());
        for (String counter : List.of("PrimaryBytesFlushed", "RedundantBytesFlushed",
                "PrimaryBytesCompacted", "BytesSplit", "BytesMerged", "RunBytes", "PrimaryBytes")) {
            assertTrue((long) control.attribute(bean, counter) > 0, counter);
        }
        assertEquals(0L, control.attribute(bean, "BytesSeparated"));
    }

    private boolean isInOrder(int ordering) throws IOException {
        return first.allTagged() && first.count(Role.Kind.SEGMENT) <= LANES
                && first.maxRuns() <= ordering;
    }

    private static void restart(int stopped) throws IOException {
        cluster.start(stopped);
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            cluster.awaitLive(node, SharedNodes.NODES);
        }
    }

    private void alter(String compaction) {
        client.execute("ALTER TABLE roles." + table + " WITH compaction = " + compaction);
    }

    private void writeAndFlush(NodeControl control) {
        for (int id = 0; id < KEYS; id++) {
            String value = "v" + id + "." + written++;
            client.session().execute(new SimpleStatement(
                    "INSERT INTO roles." + table + " (id, v) VALUES (?, ?)", id, value)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
            expected.put(id, value);
        }
        control.flush("roles", table);
    }

    private void assertRowsAreThere() {
        assertRowsAreFound(client, ConsistencyLevel.ALL);
    }

    /** From both together, a row that the first has lost would come from the second. */
    private void assertRowsAreOnTheFirstAlone() throws IOException {
        client.close();
        cluster.stop(2);
        cluster.awaitLive(1, 1);
        try (Cluster.Client alone = cluster.connect(1)) {
            assertRowsAreFound(alone, ConsistencyLevel.ONE);
        } finally {
            restart(2);
            client = cluster.connect(2);
        }
    }

    private void assertRowsAreFound(Cluster.Client by, ConsistencyLevel level) {
        Map<Integer, String> found = new TreeMap<>();
        by.session().execute(new SimpleStatement("SELECT * FROM roles." + table)
                .setConsistencyLevel(level)).all()
                .forEach(row -> found.put(row.getInt("id"), row.getString("v")));
        assertEquals(expected, found);
    }

    private void assertRolesAreTrue(NodeControl control) {
        RoleCheck roles = new RoleCheck(cluster, 1, "roles", table);
        roles.awaitTrue(control, NAMES);
        long primaries = NAMES.stream().filter(key -> roles.isPrimary(control, key)).count();
        assertTrue(primaries > 0 && primaries < KEYS, "both roles are there");
    }

    private long inspections() throws IOException {
        return logged("was inspected");
    }

    /** The number of log lines of node 1 with these words about the table. */
    private long logged(String words) throws IOException {
        return Files.readAllLines(cluster.layout(1).log()).stream()
                .filter(line -> line.contains(words))
                .filter(line -> line.contains("/" + table + "-") || line.contains("." + table))
                .count();
    }
}
