package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Tests changes of the ring: a node joins, the others are cleaned up, and the node leaves again;
 * the replication changes; a node moves in the ring and back; a node joins by way of the write
 * survey mode, or comes back with another address. Reads are correct all the time.
 */
@Tag("long")
class TopologyIT {
    private static final int KEYS = 300;
    private static final String STORAGE = "org.apache.cassandra.db:type=StorageService";
    private static final String OURS = "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy"
            + "', 'ordering': '2', 'split_segments': '2', 'groups': '2', 'settle_seconds': '0'}";
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());

    private final Map<Integer, String> expected = new TreeMap<>();
    /** A counter that makes each value different, so that a read of an old one is noticed. */
    private int written;
    private Cluster cluster;
    private Cluster.Client client;

    @AfterEach
    void stopNodes() throws IOException {
        cluster.close();
    }

    @Test
    void rangesChangeSidesWithTheRing() throws IOException {
        begin(2, new ClusterSpec(Path.of("target", "nodes-of-topology"), 3).tokensPerNode(4)
                // A node that leaves waits twice as long for batches.
                .setting("write_request_timeout: 10s"));
        check("two nodes", 1, 2);

        cluster.start(3);
        awaitRing(1, 2, 3);
        check("a node has joined", 1, 2, 3);

        cleanUp(1, 2, 3);
        check("what moved away was cleaned up", 1, 2, 3);

        onEach(control -> control.invoke(STORAGE, "decommission",
                new Object[] {true}, new String[] {"boolean"}), 3);
        cluster.stop(3);
        awaitRing(1, 2);
        check("the node has left", 1, 2);

        replicate(1);
        check("one copy of everything", 1, 2);
        replicate(2);
        onEach(control -> control.repair("t", false, "r"), 1);
        check("two copies again", 1, 2);
    }

    @Test
    void aNodeMovesOnTheRingAndBack() throws IOException {
        begin(3, new ClusterSpec(Path.of("target", "nodes-of-a-move"), 3));
        awaitRing(1, 2, 3);
        check("three nodes", 1, 2, 3);
        String home = tokenOf(3);
        // The token lies between those of the two others.
        String away = new BigInteger(tokenOf(1)).add(new BigInteger(tokenOf(2)))
                .divide(BigInteger.TWO).toString();

        move(3, away);
        check("the node has moved", 1, 2, 3);
        cleanUp(1, 2, 3);
        assertRowsAreThere("what moved away was cleaned up", ConsistencyLevel.ONE);

        move(3, home);
        assertRowsAreThere("it has moved back", ConsistencyLevel.ONE);
        check("it has moved back", 1, 2, 3);
    }

    /**
     * A node in write survey mode has its data and gets writes, but is no member of the ring. A
     * table that was created then had no placement, and nothing of it was ever compacted.
     */
    @Test
    void aNodeInWriteSurveyModeKnowsItsRoles() throws IOException {
        Path folder = Path.of("target", "nodes-of-survey");
        begin(2, new ClusterSpec(folder, 3).tokensPerNode(4));
        try (Cluster surveying = new Cluster(new ClusterSpec(folder, 3).tokensPerNode(4)
                .heap("384M").bootstrap().javaArgument("-Dcassandra.write_survey=true"))) {
            surveying.start(3);
            client.execute("DROP TABLE t.r");
            client.execute("CREATE TABLE t.r (id int PRIMARY KEY, v text) WITH compaction = "
                    + OURS);
            write();
            onEach(control -> control.flush("t", "r"), 3);
            TableOnNode files = new TableOnNode(cluster.layout(3), "t", "r");
            assertTrue(files.allTagged() && files.count(Role.Kind.PRIMARY) > 0
                    && files.count(Role.Kind.SEGMENT) > 0, files.tags()::toString);

            onEach(control -> control.invoke(STORAGE, "joinRing"), 3);
            awaitRing(1, 2, 3);
            check("the node has joined", 1, 2, 3);
        }
    }

    /**
     * Groups had the address of their source node in their names, and the placement had that of the
     * node itself. A node that came back with another address made all others inspect everything.
     */
    @Test
    void aNodeKeepsItsGroupsWithAnotherAddress() throws IOException {
        Path folder = Path.of("target", "nodes-of-address");
        begin(2, new ClusterSpec(folder, 2));
        write();
        onEach(control -> control.flush("t", "r"), 1, 2);
        Set<String> before = placements(1, 2);
        cluster.stop(2);

        String address = ClusterSpec.addressOf(3);
        try (Cluster moved = new Cluster(new ClusterSpec(folder, 2).heap("384M")
                .setting("listen_address: " + address))) {
            moved.start(2);
            try (NodeControl control = cluster.control(1)) {
                Await.until("node 1 knows the new address", () -> control.liveNodes() == 2
                        && ((Map<?, ?>) control.attribute(STORAGE, "TokenToEndpointMap"))
                                .containsValue(address));
            }
            write();
            onEach(control -> control.flush("t", "r"), 1, 2);
            assertEquals(before, placements(1, 2));
            assertRowsAreThere("with the new address", ConsistencyLevel.ALL);
        }
    }

    /**
     * With several data directories, Cassandra creates the strategies of a table anew when the ring
     * changes. They used to adopt the changed ring at once, whatever {@code settle_seconds} was.
     */
    @Test
    void twoDisksWaitForTheRingToSettle() throws IOException {
        begin(2, new ClusterSpec(Path.of("target", "nodes-of-disks"), 3).twoDisks(1));
        client.execute("ALTER TABLE t.r WITH compaction = "
                + OURS.replace("'settle_seconds': '0'", "'settle_seconds': '3600'"));
        write();
        onEach(control -> control.flush("t", "r"), 1);
        Set<String> before = placements(1);
        cluster.start(3);
        awaitRing(1, 2, 3);
        write();
        onEach(control -> control.flush("t", "r"), 1);
        assertEquals(before, placements(1));
        assertRowsAreThere("a node has joined", ConsistencyLevel.ALL);
    }

    /** The placements for which the SSTables of these nodes have roles. */
    private Set<String> placements(int... nodes) throws IOException {
        Set<String> found = new TreeSet<>();
        for (int node : nodes) {
            new TableOnNode(cluster.layout(node), "t", "r").tags().values().forEach(
                    tag -> found.add(node + " " + tag.orElseThrow().placement));
        }
        return found;
    }

    /** @param first the number of nodes at the beginning */
    private void begin(int first, ClusterSpec spec) throws IOException {
        cluster = new Cluster(spec.heap("384M").bootstrap());
        cluster.reset();
        for (int node = 1; node <= first; node++) {
            cluster.start(node);
        }
        client = cluster.connect(1);
        client.execute("CREATE KEYSPACE t WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': 2}");
        client.execute("CREATE TABLE t.r (id int PRIMARY KEY, v text) WITH compaction = " + OURS);
    }

    private String tokenOf(int node) throws IOException {
        try (NodeControl control = cluster.control(node)) {
            return (String) ((List<?>) control.attribute(STORAGE, "Tokens")).get(0);
        }
    }

    /** Writes rows and reads them from one copy each, so that no other copy hides a loss. */
    private void move(int node, String token) throws IOException {
        CompletableFuture<Void> moving = CompletableFuture.runAsync(() -> {
            try (NodeControl control = cluster.control(node)) {
                control.invoke(STORAGE, "move", new Object[] {token},
                        new String[] {"java.lang.String"});
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        });
        do {
            write();
            assertRowsAreThere("on the way to " + token, ConsistencyLevel.ONE);
        } while (!moving.isDone());
        moving.join();
        for (int observer = 1; observer <= 3; observer++) {
            try (NodeControl control = cluster.control(observer)) {
                Await.until("node " + observer + " knows of " + token, () ->
                        ((Map<?, ?>) control.attribute(STORAGE, "TokenToEndpointMap"))
                                .containsKey(token));
            }
        }
    }

    private void cleanUp(int... nodes) throws IOException {
        onEach(control -> control.invoke(STORAGE, "forceKeyspaceCleanup",
                new Object[] {1, "t", new String[0]},
                new String[] {"int", "java.lang.String", "[Ljava.lang.String;"}), nodes);
    }

    private void check(String when, int... nodes) throws IOException {
        assertRowsAreThere(when + ", at once", ConsistencyLevel.ALL);
        write();
        // A flush makes the node ask for compactions, which begins the inspections.
        onEach(control -> control.flush("t", "r"), nodes);
        for (int node : nodes) {
            try (NodeControl control = cluster.control(node)) {
                RoleCheck roles = new RoleCheck(cluster, node, "t", "r");
                roles.awaitFollowed(control);
                roles.awaitTrue(control, NAMES);
                assertTrue(NAMES.stream().anyMatch(key -> roles.isPrimary(control, key)), when);
            }
        }
        assertRowsAreThere(when + ", followed", ConsistencyLevel.ALL);
    }

    private void write() {
        for (int id = 0; id < KEYS; id++) {
            String value = "v" + id + "." + written++;
            client.session().execute(new SimpleStatement(
                    "INSERT INTO t.r (id, v) VALUES (?, ?)", id, value)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
            expected.put(id, value);
        }
    }

    private void assertRowsAreThere(String when, ConsistencyLevel level) {
        Map<Integer, String> found = new TreeMap<>();
        client.session().execute(new SimpleStatement("SELECT * FROM t.r")
                .setConsistencyLevel(level))
                .forEach(row -> found.put(row.getInt("id"), row.getString("v")));
        assertEquals(expected, found, when);
    }

    private void replicate(int copies) {
        client.execute("ALTER KEYSPACE t WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': " + copies + "}");
    }

    private void awaitRing(int... nodes) throws IOException {
        for (int node : nodes) {
            cluster.awaitLive(node, nodes.length);
        }
    }

    /** A command of an operator to a node. */
    private interface Action {
        void on(NodeControl control);
    }

    private void onEach(Action action, int... nodes) throws IOException {
        for (int node : nodes) {
            try (NodeControl control = cluster.control(node)) {
                action.on(control);
            }
        }
    }
}
