package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Gives a keyspace transient replicas and takes them away again. Its tables lose their roles and
 * get them back, and the client is warned. The strategy used to read the replication only when it
 * was created, so that copies silently kept their roles until a restart.
 */
@Tag("long")
class TransientReplicasIT {
    private static final int NODES = 2;
    private static final int KEYS = 100;
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());
    private static final String OURS = " WITH read_repair = 'NONE' AND compaction = {'class': "
            + "'org.cleavedb.cassandra.ReplicaDecouplingStrategy', 'ordering': '2', "
            + "'split_segments': '2', 'groups': '2', 'settle_seconds': '0'}";
    private static final String BEAN =
            "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=k,table=t";

    private final Cluster cluster = new Cluster(
            new ClusterSpec(Path.of("target", "nodes-of-transient-replicas"), NODES).heap("384M")
                    .setting("transient_replication_enabled: true"));
    private final Map<Integer, Integer> expected = new TreeMap<>();
    private Cluster.Client client;
    private int written;

    @AfterEach
    void stopNodes() throws IOException {
        cluster.close();
    }

    @Test
    void rolesEndWithTransientReplicasAndComeBackAfterThem() throws IOException {
        cluster.reset();
        cluster.start();
        client = cluster.connect(1);
        assertEquals(List.of(), warningsOf("CREATE KEYSPACE k WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': '2'}"));
        assertEquals(List.of(), warningsOf("CREATE TABLE k.t (id int PRIMARY KEY, v int)" + OURS));
        for (int round = 0; round < 3; round++) {
            writeAndFlush();
        }
        assertRolesAreTrue();

        assertWarnedOf("k.t", warningsOf(replication("2/1")));
        writeAndFlush();
        for (int node = 1; node <= NODES; node++) {
            assertAllIsPrimary(node);
        }
        assertRowsAreThere();
        assertWarnedOf("k.other",
                warningsOf("CREATE TABLE k.other (id int PRIMARY KEY, v int)" + OURS));

        assertEquals(List.of(), warningsOf(replication("2")));
        writeAndFlush();
        assertRolesAreTrue();
        assertRowsAreThere();
    }

    private static String replication(String factor) {
        return "ALTER KEYSPACE k WITH replication = {'class': 'SimpleStrategy', "
                + "'replication_factor': '" + factor + "'}";
    }

    /** The warnings about roles; Cassandra has others of its own. */
    private List<String> warningsOf(String cql) {
        return client.warningsOf(cql).stream()
                .filter(warning -> warning.contains("roles")).collect(Collectors.toList());
    }

    private static void assertWarnedOf(String table, List<String> warnings) {
        assertEquals(1, warnings.stream().filter(warning ->
                warning.contains("have no roles") && warning.contains(table)).count(),
                warnings::toString);
    }

    private void assertAllIsPrimary(int node) throws IOException {
        TableOnNode files = new TableOnNode(cluster.layout(node), "k", "t");
        try (NodeControl control = cluster.control(node)) {
            Await.until("all is primary on node " + node, () ->
                    (int) control.attribute(BEAN, "PrimaryFiles") == files.tags().size()
                    && (int) control.attribute(BEAN, "Segments") == 0
                    && (int) control.attribute(BEAN, "Runs") == 0
                    && (int) control.attribute(BEAN, "FilesToInspect") == 0);
            assertTrue((int) control.attribute(BEAN, "PrimaryFiles") > 0);
        }
    }

    private void assertRolesAreTrue() throws IOException {
        for (int node = 1; node <= NODES; node++) {
            TableOnNode files = new TableOnNode(cluster.layout(node), "k", "t");
            try (NodeControl control = cluster.control(node)) {
                RoleCheck roles = new RoleCheck(cluster, node, "k", "t");
                roles.awaitFollowed(control);
                roles.awaitTrue(control, NAMES);
                assertTrue(files.count(Role.Kind.PRIMARY) > 0);
                assertTrue(files.tags().size() > files.count(Role.Kind.PRIMARY));
            }
        }
    }

    private void writeAndFlush() throws IOException {
        for (int id = 0; id < KEYS; id++) {
            client.session().execute(new SimpleStatement(
                    "INSERT INTO k.t (id, v) VALUES (?, ?)", id, ++written)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
            expected.put(id, written);
        }
        for (int node = 1; node <= NODES; node++) {
            try (NodeControl control = cluster.control(node)) {
                control.flush("k", "t");
            }
        }
    }

    private void assertRowsAreThere() {
        Map<Integer, Integer> found = new TreeMap<>();
        client.session().execute(new SimpleStatement("SELECT * FROM k.t")
                .setConsistencyLevel(ConsistencyLevel.ALL))
                .forEach(row -> found.put(row.getInt("id"), row.getInt("v")));
        assertEquals(expected, found);
    }
}
