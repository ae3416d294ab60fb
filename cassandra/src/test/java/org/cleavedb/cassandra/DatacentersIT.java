package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Tests two data centres with the snitch of the module: nodes 1 and 3 are in one, node 2 is in the
 * other. Each data centre has primary copies of its own, and its readers use them.
 */
@Tag("long")
class DatacentersIT {
    private static final int KEYS = 200;
    private static final Set<Integer> NEAR = Set.of(1, 3);
    private static final Set<Integer> FAR = Set.of(2);
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());
    private static final String BEAN =
            "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=k,table=t";

    private Cluster cluster;

    @Test
    void eachDatacenterHasPrimariesAndReadersMeetThem() throws IOException {
        cluster = new Cluster(new ClusterSpec(Path.of("target", "nodes-of-datacenters"), 3)
                .datacenters("near", "far", "near").tokensPerNode(4).heap("384M"));
        cluster.reset();
        cluster.start();
        try (Cluster.Client client = cluster.connect(1)) {
            client.execute("CREATE KEYSPACE k WITH replication = "
                    + "{'class': 'NetworkTopologyStrategy', 'near': 2, 'far': 1}");
            client.execute("CREATE TABLE k.t (id int PRIMARY KEY, v text) WITH speculative_retry ="
                    + " 'NEVER' AND compaction = {'class': 'org.cleavedb.cassandra."
                    + "ReplicaDecouplingStrategy', 'ordering': '2', 'split_segments': '2',"
                    + " 'groups': '2', 'settle_seconds': '0'}");
            for (int round = 0; round < 7; round++) {
                write(client);
            }
            assertRolesPerDatacenter();

            read(client, ConsistencyLevel.LOCAL_ONE);
            assertEquals(0, looks(1, "SegmentsRead", "RunsRead"));
            assertEquals(0, looks(3, "SegmentsRead", "RunsRead"));
            assertTrue(looks(1, "PrimaryFilesRead") > 0);
            assertTrue(looks(3, "PrimaryFilesRead") > 0);
            assertEquals(0, looks(2, "PrimaryFilesRead"), "readers stay in their data centre");

            read(client, ConsistencyLevel.LOCAL_QUORUM);
            assertTrue(looks(1, "SegmentsRead", "RunsRead") > 0);
            assertTrue(looks(3, "SegmentsRead", "RunsRead") > 0);
            assertEquals(0, looks(2, "PrimaryFilesRead"));

            replicate(client, "'near': 1, 'far': 1");
            write(client);
            assertRolesPerDatacenter();
        } finally {
            cluster.close();
        }
    }

    private void write(Cluster.Client client) throws IOException {
        for (int id = 0; id < KEYS; id++) {
            client.session().execute(new SimpleStatement(
                    "INSERT INTO k.t (id, v) VALUES (?, 'v')", id)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
        }
        for (int node = 1; node <= 3; node++) {
            try (NodeControl control = cluster.control(node)) {
                control.flush("k", "t");
            }
        }
    }

    private static void read(Cluster.Client client, ConsistencyLevel level) {
        for (int id = 0; id < KEYS; id++) {
            List<Row> rows = client.session().execute(new SimpleStatement(
                    "SELECT * FROM k.t WHERE id = ?", id).setConsistencyLevel(level)).all();
            assertEquals(1, rows.size());
        }
    }

    private static void replicate(Cluster.Client client, String copies) {
        client.execute("ALTER KEYSPACE k WITH replication = "
                + "{'class': 'NetworkTopologyStrategy', " + copies + "}");
    }

    private void assertRolesPerDatacenter() throws IOException {
        for (int node = 1; node <= 3; node++) {
            try (NodeControl control = cluster.control(node)) {
                RoleCheck roles = new RoleCheck(cluster, node, "k", "t",
                        NEAR.contains(node) ? NEAR : FAR);
                roles.awaitFollowed(control);
                roles.awaitTrue(control, NAMES);
                long primaries =
                        NAMES.stream().filter(key -> roles.isPrimary(control, key)).count();
                assertTrue(NEAR.contains(node)
                        ? primaries > 0 && primaries < KEYS : primaries == KEYS);
            }
        }
    }

    private long looks(int node, String... attributes) throws IOException {
        long sum = 0;
        try (NodeControl control = cluster.control(node)) {
            for (String attribute : attributes) {
                sum += (long) control.attribute(BEAN, attribute);
            }
        }
        return sum;
    }
}
