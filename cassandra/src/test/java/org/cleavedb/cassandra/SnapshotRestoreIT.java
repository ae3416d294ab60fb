package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Restores snapshots: SSTables of the same node, without tags, and of another node. */
@Tag("quick")
class SnapshotRestoreIT {
    private static final int KEYS = 100;
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());
    /** The number of flushes: one more than a split takes, so there are segments and runs. */
    private static final int FLUSHES = 4;
    private static final String STORAGE = "org.apache.cassandra.db:type=StorageService";
    private static final String BEAN =
            "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=restored,table=t";
    private static final String TAG = "-ReplicaRole.txt";
    private static Cluster cluster;
    private static Cluster.Client client;

    @BeforeAll
    static void takeSnapshots() throws IOException {
        cluster = SharedNodes.cluster();
        client = SharedNodes.connect(1, "restored");
        client.execute("CREATE TABLE restored.t (id int PRIMARY KEY, v int) WITH compaction = "
                + "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy', 'ordering': '2', "
                + "'split_segments': '" + (FLUSHES - 1) + "', 'groups': '2', "
                + "'settle_seconds': '0'}");
        for (int round = 0; round < FLUSHES; round++) {
            for (int id = 0; id < KEYS; id++) {
                client.session().execute(new SimpleStatement(
                        "INSERT INTO restored.t (id, v) VALUES (?, ?)", id, id + round)
                        .setConsistencyLevel(ConsistencyLevel.ALL));
            }
            for (int node = 1; node <= SharedNodes.NODES; node++) {
                try (NodeControl control = cluster.control(node)) {
                    control.flush("restored", "t");
                }
            }
        }
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            takeSnapshot(node);
        }
    }

    private static void takeSnapshot(int node) throws IOException {
        try (NodeControl control = cluster.control(node)) {
            assertAllIsWell(node, control);
            Await.until("primary copies are put together, and the log is split", () ->
                    files(node).count(Role.Kind.PRIMARY) == cluster.layout(node).disks().size()
                    && files(node).count(Role.Kind.RUN) > 0);
            control.invoke(STORAGE, "takeSnapshot",
                    new Object[] {"kept", Map.of(), new String[] {"restored.t"}},
                    new String[] {"java.lang.String", "java.util.Map", "[Ljava.lang.String;"});
        }
    }

    @BeforeEach
    void truncate() {
        client.execute("TRUNCATE restored.t");
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            TableOnNode files = files(node);
            Await.until("no file is left on node " + node, () -> files.tags().isEmpty());
        }
    }

    /** The ring is the same as at the snapshot, so tags are valid and no keys are inspected. */
    @Test
    void aSnapshotComesBackWithItsRoles() throws IOException {
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            try (NodeControl control = cluster.control(node)) {
                // As they were put back is how they are found.
                onTable(control, "disableAutoCompaction");
                long inspected = (long) control.attribute(BEAN, "FilesInspected");
                putBack(node, node, true);
                Map<String, Long> roles = countedRoles(node);
                refresh(control);
                assertEquals(roles, countedRoles(node));
                assertEquals(0, control.attribute(BEAN, "FilesToInspect"));
                for (Role.Kind kind : Role.Kind.values()) {
                    assertTrue(files(node).count(kind) > 0, () -> kind + " in " + roles);
                }
                assertAllIsWell(node, control);
                assertEquals(inspected, control.attribute(BEAN, "FilesInspected"));
            }
        }
        assertRowsAreThere();
    }

    /** A backup may not know tags, or may have been made before the ALTER. */
    @Test
    void aSnapshotWithoutTagsIsInspected() throws IOException {
        for (int node = 1; node <= SharedNodes.NODES; node++) {
            try (NodeControl control = cluster.control(node)) {
                onTable(control, "disableAutoCompaction");
                putBack(node, node, false);
                refresh(control);
                assertEquals(Map.of("none", (long) (int) control.attribute(BEAN, "FilesToInspect")),
                        countedRoles(node));
                assertAllIsWell(node, control);
            }
        }
        assertRowsAreThere();
    }

    /**
     * Copies that are primary on one node are redundant on the other, so tags of another node are
     * invalid. Its SSTables go to the first disk of two, though some partitions belong to the
     * second.
     */
    @Test
    void filesOfAnotherNodeFindTheirSideAndTheirDisk() throws IOException {
        Path firstDisk = cluster.layout(2).disks().get(0);
        try (NodeControl control = cluster.control(2)) {
            putBack(1, 2, true);
            refresh(control);
            assertAllIsWell(2, control);
            // Primary copies move to their disk as they are merged; segments are too few.
            Set<Path> misplaced = segments();
            assertFalse(misplaced.isEmpty());
            assertTrue(misplaced.stream().allMatch(file -> file.startsWith(firstDisk)));
            relocate(control);
            Await.until("none of these is left", () ->
                    Collections.disjoint(misplaced, files(2).tags().keySet()));
            assertAllIsWell(2, control);
            Set<Path> inPlace = segments();
            assertEquals(2, inPlace.stream()
                    .map(file -> file.startsWith(firstDisk)).distinct().count(), inPlace::toString);
            relocate(control);
            assertEquals(inPlace, segments(), "what is in its place stays there");
        }
        assertRowsAreThere();
    }

    private static Set<Path> segments() throws IOException {
        return files(2).tags().entrySet().stream()
                .filter(file -> file.getValue().isPresent()
                        && file.getValue().get().role.kind == Role.Kind.SEGMENT)
                .map(Map.Entry::getKey).collect(Collectors.toCollection(TreeSet::new));
    }

    private static void relocate(NodeControl control) {
        Object status = control.invoke(STORAGE, "relocateSSTables",
                new Object[] {"restored", new String[] {"t"}},
                new String[] {"java.lang.String", "[Ljava.lang.String;"});
        assertEquals(0, status, "as if by `nodetool`, which says so if it fails");
    }

    /** Copies a node's snapshot into the directories of another one, or of itself, disk by disk. */
    private static void putBack(int from, int to, boolean withTags) throws IOException {
        List<Path> sources = cluster.layout(from).disks();
        List<Path> targets = cluster.layout(to).disks();
        for (int disk = 0; disk < sources.size(); disk++) {
            Path snapshot = folder(sources.get(disk)).resolve("snapshots").resolve("kept");
            for (Path file : list(snapshot)) {
                String name = file.getFileName().toString();
                // Besides SSTables, a snapshot has files that describe it.
                if (name.contains("-") && (withTags || !name.endsWith(TAG))) {
                    Files.copy(file, folder(targets.get(disk)).resolve(name));
                }
            }
        }
    }

    private static Path folder(Path disk) throws IOException {
        return list(disk.resolve("restored")).stream()
                .filter(folder -> folder.getFileName().toString().startsWith("t-"))
                .findFirst().orElseThrow();
    }

    private static List<Path> list(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.collect(Collectors.toList());
        }
    }

    private static TableOnNode files(int node) {
        return new TableOnNode(cluster.layout(node), "restored", "t");
    }

    private static Map<String, Long> countedRoles(int node) throws IOException {
        return files(node).tags().values().stream()
                .map(tag -> tag.map(known -> known.role.toString()).orElse("none"))
                .collect(Collectors.groupingBy(role -> role, Collectors.counting()));
    }

    private static void refresh(NodeControl control) {
        control.invoke(STORAGE, "loadNewSSTables", new Object[] {"restored", "t"},
                new String[] {"java.lang.String", "java.lang.String"});
    }

    private static void onTable(NodeControl control, String operation) {
        control.invoke(STORAGE, operation, new Object[] {"restored", new String[] {"t"}},
                new String[] {"java.lang.String", "[Ljava.lang.String;"});
    }

    /** Checks that the node alone has all rows, and that all its roles are right. */
    private static void assertAllIsWell(int node, NodeControl control) {
        // Without a flush, the node asks for compactions only once a minute.
        onTable(control, "enableAutoCompaction");
        RoleCheck roles = new RoleCheck(cluster, node, "restored", "t");
        roles.awaitFollowed(control);
        roles.awaitTrue(control, NAMES);
        Await.until("each key is in a file of node " + node, () ->
                NAMES.stream().noneMatch(key -> files(node).filesOf(control, key).isEmpty()));
        Await.until("no tag is left behind", () -> files(node).strayTags().isEmpty());
    }

    private static void assertRowsAreThere() {
        Map<Integer, Integer> found = new HashMap<>();
        client.session().execute(new SimpleStatement("SELECT * FROM restored.t")
                .setConsistencyLevel(ConsistencyLevel.ALL))
                .forEach(row -> found.put(row.getInt("id"), row.getInt("v")));
        assertEquals(IntStream.range(0, KEYS).boxed()
                .collect(Collectors.toMap(id -> id, id -> id + FLUSHES - 1)), found);
    }
}
