package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Tests 256 virtual nodes per node: ranges are combined, so that groups and SSTables stay few. */
@Tag("long")
class VnodesIT {
    private static final int NODES = 3;
    private static final int KEYS = 600;
    private static final int GROUPS = 8;

    @Test
    void manySmallRangesMakeFewGroups() throws IOException {
        try (Cluster cluster = new Cluster(new ClusterSpec(Path.of("target", "nodes-of-vnodes"),
                NODES).tokensPerNode(256).heap("384M"))) {
            cluster.reset();
            cluster.start();
            try (Cluster.Client client = cluster.connect(1)) {
                fillAndCheck(cluster, client);
            }
        }
    }

    private static void fillAndCheck(Cluster cluster, Cluster.Client client) throws IOException {
        client.execute("CREATE KEYSPACE k WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': 3}");
        client.execute("CREATE TABLE k.t (id int PRIMARY KEY, v text) WITH compaction = "
                + "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy', 'ordering': '2',"
                + " 'split_segments': '2', 'groups': '" + GROUPS + "', 'settle_seconds': '0'}");
        for (int round = 0; round < 6; round++) {
            for (int id = 0; id < KEYS; id++) {
                client.session().execute(new SimpleStatement(
                        "INSERT INTO k.t (id, v) VALUES (?, 'v')", id)
                        .setConsistencyLevel(ConsistencyLevel.ALL));
            }
            for (int node = 1; node <= NODES; node++) {
                try (NodeControl control = cluster.control(node)) {
                    control.flush("k", "t");
                }
            }
        }
        List<String> names = IntStream.range(0, KEYS).mapToObj(Integer::toString)
                .collect(Collectors.toList());
        for (int node = 1; node <= NODES; node++) {
            TableOnNode files = new TableOnNode(cluster.layout(node), "k", "t");
            Await.until("the log is in order", () -> files.allTagged()
                    && files.count(Role.Kind.SEGMENT) < 2 && files.maxRuns() <= 2);
            assertTrue(files.count(Role.Kind.RUN) <= 2 * GROUPS * (NODES - 1));
            try (NodeControl control = cluster.control(node)) {
                new RoleCheck(cluster, node, "k", "t").awaitTrue(control, names);
            }
        }
    }
}
