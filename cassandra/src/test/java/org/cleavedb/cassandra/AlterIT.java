package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.exceptions.InvalidConfigurationInQueryException;
import java.io.IOException;
import java.util.List;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;
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
    static void startNodes() throws IOException {
        cluster = SharedNodes.cluster();
        client = SharedNodes.connect(1, "alters");
    }

    @Test
    void rowsSurviveSwitchingBackAndForth() throws IOException {
        client.execute("CREATE TABLE alters.moved (id int PRIMARY KEY, v text)");
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
                client.execute("ALTER TABLE alters.moved WITH compaction = " + strategy);
                // The read below may go to any node.
                client.session().execute(new SimpleStatement(
                        "INSERT INTO alters.moved (id, v) VALUES (?, ?)", ++rows, strategy)
                        .setConsistencyLevel(ConsistencyLevel.ALL));
                control.flush("alters", "moved");
                assertEquals(rows, client.execute("SELECT * FROM alters.moved").size(), strategy);
            }
            control.compact("alters", "moved");
            assertEquals(rows, client.execute("SELECT * FROM alters.moved").size());
        }
    }

    @Test
    void wrongOptionsAreRefusedAndExplained() {
        assertRefused("'primary': 'tiered'", "'leveled' or 'unified', not 'tiered'");
        assertRefused("'sstable_size_in_mb': 'big'", "big is not a parsable int");
        assertRefused("'colour': 'red'", "colour");
        assertRefused("'ordering': '4', 'ordering_min': '2'",
                "is allowed only with 'ordering': 'auto'");
        assertRefused("'redundant': 'trees', 'groups': '4'", "is an option of the log");
    }

    private static void assertRefused(String option, String explanation) {
        String statement = "CREATE TABLE alters.refused (id int PRIMARY KEY) WITH compaction = {"
                + "'class': '" + OURS + "', " + option + "}";
        Exception refusal = assertThrows(
                InvalidConfigurationInQueryException.class, () -> client.execute(statement));
        assertTrue(refusal.getMessage().contains(explanation), refusal.getMessage());
    }
}
