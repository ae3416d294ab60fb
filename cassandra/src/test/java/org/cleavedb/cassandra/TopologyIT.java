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
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * A node joins, is cleaned up after, and leaves again; the replication changes. Ranges change sides
 * on every node, and rows are right all the time.
 */
@Tag("long")
class TopologyIT {
    private static final int KEYS = 300;
    private static final String OURS = "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy"
            + "', 'ordering': '2', 'split_segments': '2', 'groups': '2', 'settle_seconds': '0'}";
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());

    private final Map<Integer, String> expected = new TreeMap<>();
    private Cluster cluster;
    private Cluster.Client client;

    @Test
    void rangesChangeSidesWithTheRing() throws IOException {
        cluster = new Cluster(new ClusterSpec(Path.of("target", "nodes-of-topology"), 3)
                .tokensPerNode(4).heap("384M").bootstrap()
                // A node that leaves waits twice as long for batches.
                .setting("write_request_timeout: 10s"));
        cluster.reset();
        try {
            cluster.start(1);
            cluster.start(2);
            client = cluster.connect(1);
            client.execute("CREATE KEYSPACE t WITH replication = "
                    + "{'class': 'SimpleStrategy', 'replication_factor': 2}");
            client.execute("CREATE TABLE t.r (id int PRIMARY KEY, v text) WITH compaction = "
                    + OURS);
            check("two nodes", 1, 2);

            cluster.start(3);
            awaitRing(1, 2, 3);
            check("a node has joined", 1, 2, 3);

            onEach(control -> control.invoke("org.apache.cassandra.db:type=StorageService",
                    "forceKeyspaceCleanup", new Object[] {1, "t", new String[0]},
                    new String[] {"int", "java.lang.String", "[Ljava.lang.String;"}), 1, 2, 3);
            check("what moved away was cleaned up", 1, 2, 3);

            onEach(control -> control.invoke("org.apache.cassandra.db:type=StorageService",
                    "decommission", new Object[] {true}, new String[] {"boolean"}), 3);
            cluster.stop(3);
            awaitRing(1, 2);
            check("the node has left", 1, 2);

            replicate(1);
            check("one copy of everything", 1, 2);
            replicate(2);
            onEach(control -> control.repair("t", false, "r"), 1);
            check("two copies again", 1, 2);
        } finally {
            if (client != null) {
                client.close();
            }
            cluster.close();
        }
    }

    private void check(String when, int... nodes) throws IOException {
        assertRowsAreThere(when + ", at once");
        write();
        // Files are looked at again when compaction is, so the node is given a reason.
        onEach(control -> control.flush("t", "r"), nodes);
        for (int node : nodes) {
            try (NodeControl control = cluster.control(node)) {
                RoleCheck roles = new RoleCheck(cluster, node, "t", "r");
                roles.awaitFollowed(control);
                roles.awaitTrue(control, NAMES);
                assertTrue(NAMES.stream().anyMatch(key -> roles.isPrimary(control, key)), when);
            }
        }
        assertRowsAreThere(when + ", followed");
    }

    private void write() {
        for (int id = 0; id < KEYS; id++) {
            String value = "v" + id + "." + expected.size();
            client.session().execute(new SimpleStatement(
                    "INSERT INTO t.r (id, v) VALUES (?, ?)", id, value)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
            expected.put(id, value);
        }
    }

    private void assertRowsAreThere(String when) {
        Map<Integer, String> found = new TreeMap<>();
        client.session().execute(new SimpleStatement("SELECT * FROM t.r")
                .setConsistencyLevel(ConsistencyLevel.ALL))
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

    /** Something an operator does to a node. */
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
