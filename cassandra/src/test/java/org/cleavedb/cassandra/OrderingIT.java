package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Files;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Tests {@code ordering: auto} on a node: writes raise the ordering, and reads lower it. */
@Tag("quick")
class OrderingIT {
    private static final int KEYS = 150;
    private static final String BEAN =
            "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=orderings,table=t";

    private Cluster.Client client;
    private NodeControl control;

    @Test
    void theOrderingFollowsTheLoadBetweenItsBounds() throws IOException {
        Cluster cluster = SharedNodes.cluster();
        client = cluster.connect(1);
        control = cluster.control(1);
        try {
            SharedNodes.createKeyspace(client, "orderings");
            client.execute("CREATE TABLE orderings.t (id int PRIMARY KEY, v text) WITH compaction ="
                    + " {'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy', 'groups': '2'"
                    + ", 'split_segments': '1', 'settle_seconds': '0', 'ordering': 'auto'"
                    + ", 'ordering_min': '2', 'ordering_max': '12', 'ordering_seconds': '1'}");
            assertEquals(4, control.attribute(BEAN, "Ordering"));
            Await.until("a table that is only written goes up", () -> {
                write();
                return (int) control.attribute(BEAN, "Ordering") == 12;
            });
            Await.until("a table that is mostly read at ALL goes down", () -> {
                read(ConsistencyLevel.ALL);
                return (int) control.attribute(BEAN, "Ordering") == 2;
            });
            assertEquals(2, control.attribute(BEAN, "OrderingWanted"));
            assertEquals(0.5, (double) control.attribute(BEAN, "RedundantShareOfReads"), 0.01);
            Await.until("groups follow", () -> {
                aFlush();
                return (int) control.attribute(BEAN, "MaxRunsPerGroup") <= 2;
            });
            Await.until("at ONE, reads meet primaries: it goes up again", () -> {
                read(ConsistencyLevel.ONE);
                return (int) control.attribute(BEAN, "Ordering") == 12;
            });
            assertTrue(Files.readString(cluster.layout(1).log())
                    .contains("orderings.t: `ordering` is now 8 and was 4"));
        } finally {
            control.close();
            client.close();
        }
    }

    private void write() {
        for (int id = 0; id < KEYS; id++) {
            client.execute("INSERT INTO orderings.t (id, v) VALUES (?, 'v')", id);
        }
        aFlush();
    }

    private void read(ConsistencyLevel level) {
        for (int round = 0; round < 8; round++) {
            for (int id = 0; id < KEYS; id++) {
                client.session().execute(new SimpleStatement(
                        "SELECT * FROM orderings.t WHERE id = ?", id).setConsistencyLevel(level));
            }
        }
        aFlush();
    }

    /** Flushes the table, after which the node asks the strategy for compactions. */
    private void aFlush() {
        client.execute("INSERT INTO orderings.t (id, v) VALUES (0, 'w')");
        control.flush("orderings", "t");
    }
}
