package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.exceptions.InvalidConfigurationInQueryException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The strategy is switched on and off by ALTER TABLE, and wrong options are explained. */
@Tag("quick")
class AlterIT {
    private static final String OURS = "org.cleavedb.cassandra.ReplicaDecouplingStrategy";
    private static Cluster cluster;
    private static Cluster.Client client;

    @BeforeAll
    static void startNode() throws IOException {
        cluster = new Cluster(new ClusterSpec(Path.of("target", "nodes-of-alter"), 1));
        cluster.wipe();
        cluster.start();
        client = cluster.connect(1);
        client.execute("CREATE KEYSPACE k WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
    }

    @AfterAll
    static void stopNode() throws IOException {
        if (client != null) {
            client.close();
        }
        cluster.close();
    }

    @Test
    void rowsSurviveSwitchingBackAndForth() throws IOException {
        client.execute("CREATE TABLE k.moved (id int PRIMARY KEY, v text)");
        List<String> strategies = List.of(
                "{'class': '" + OURS + "'}",
                "{'class': 'SizeTieredCompactionStrategy'}",
                "{'class': '" + OURS + "', 'primary': 'unified'}",
                "{'class': 'LeveledCompactionStrategy'}",
                "{'class': '" + OURS + "', 'primary': 'leveled', 'sstable_size_in_mb': '1'}",
                "{'class': 'UnifiedCompactionStrategy'}");
        try (NodeControl control = cluster.control(1)) {
            int rows = 0;
            for (String strategy : strategies) {
                client.execute("ALTER TABLE k.moved WITH compaction = " + strategy);
                client.execute("INSERT INTO k.moved (id, v) VALUES (?, ?)", ++rows, strategy);
                control.flush("k", "moved");
                assertEquals(rows, client.execute("SELECT * FROM k.moved").size(), strategy);
            }
            control.compact("k", "moved");
            assertEquals(rows, client.execute("SELECT * FROM k.moved").size());
        }
    }

    @Test
    void wrongOptionsAreRefusedAndExplained() {
        assertRefused("'primary': 'tiered'", "'leveled' or 'unified', not 'tiered'");
        assertRefused("'sstable_size_in_mb': 'big'", "big is not a parsable int");
        assertRefused("'colour': 'red'", "colour");
    }

    private static void assertRefused(String option, String explanation) {
        String statement = "CREATE TABLE k.refused (id int PRIMARY KEY) WITH compaction = {"
                + "'class': '" + OURS + "', " + option + "}";
        Exception refusal = assertThrows(
                InvalidConfigurationInQueryException.class, () -> client.execute(statement));
        assertTrue(refusal.getMessage().contains(explanation), refusal.getMessage());
    }
}
