package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.util.List;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Tests the virtual tables, and that reads at ONE use primary copies and those at ALL all. */
@Tag("quick")
class ViewsIT {
    private static final int KEYS = 100;
    private static final String BEAN =
            "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=views,table=t";
    private static Cluster cluster;

    @Test
    void numbersAreThereInCqlAndSayWhereReadsLook() throws IOException {
        cluster = SharedNodes.cluster();
        try (Cluster.Client client = cluster.connect(1)) {
            SharedNodes.createKeyspace(client, "views");
            client.execute("CREATE TABLE views.t (id int PRIMARY KEY, v text) WITH"
                    + " speculative_retry = 'NEVER' AND compaction = {'class': 'org.cleavedb."
                    + "cassandra.ReplicaDecouplingStrategy', 'settle_seconds': '0',"
                    + " 'split_segments': '3', 'groups': '2'}");
            for (int round = 0; round < 3; round++) {
                write(client, KEYS);
            }
            Await.until("the log is split", () -> number("Runs") > 0);
            // Some keys get newer rows, since a read stops once it has found all columns.
            write(client, KEYS / 2);

            read(client, ConsistencyLevel.ONE);
            assertTrue(number("PrimaryFilesRead") > 0);
            assertEquals(0, number("SegmentsRead") + number("RunsRead") + number("OtherFilesRead"),
                    "the first replica is asked first, and has the primary copy");
            read(client, ConsistencyLevel.ALL);
            assertTrue(number("SegmentsRead") > 0);
            assertTrue(number("RunsRead") > 0);

            assertViewsAgree(client);
            // Reads of SSTables that were removed since still count.
            long before = number("SegmentsRead") + number("RunsRead");
            try (NodeControl control = cluster.control(1)) {
                control.compact("views", "t");
            }
            assertEquals(before, number("SegmentsRead") + number("RunsRead"));
        }
    }

    private static void assertViewsAgree(Cluster.Client client) throws IOException {
        Row table = client.execute("SELECT * FROM cleavedb_views.replica_tables WHERE "
                + "keyspace_name = 'views' AND table_name = 't'").get(0);
        assertEquals(4, table.getInt("ordering"));
        assertEquals(0, table.getInt("files_to_inspect"));
        assertEquals(1.0, table.getDouble("resplit_progress"));
        assertEquals(number("BytesSplit"), table.getLong("bytes_split"));
        assertEquals(number("PrimaryBytesFlushed"), table.getLong("primary_bytes_flushed"));

        for (Row side : client.execute(
                "SELECT * FROM cleavedb_views.replica_sides WHERE keyspace_name = 'views'")) {
            String name = side.getString("side");
            long files = name.equals("primary") ? number("PrimaryFiles")
                    : name.equals("segments") ? number("Segments")
                    : name.equals("runs") ? number("Runs") : 0;
            assertEquals(files, side.getInt("files"), name);
        }
        List<Row> groups = client.execute(
                "SELECT * FROM cleavedb_views.replica_groups WHERE keyspace_name = 'views'");
        assertEquals(number("Runs"), groups.stream().mapToInt(row -> row.getInt("runs")).sum());
        String ofTheOther = hostId(2) + "#";
        assertTrue(groups.stream().allMatch(
                row -> row.getString("group_name").startsWith(ofTheOther)));
    }

    private static Object hostId(int node) throws IOException {
        try (NodeControl control = cluster.control(node)) {
            return control.attribute("org.apache.cassandra.db:type=StorageService", "LocalHostId");
        }
    }

    private static void write(Cluster.Client client, int keys) throws IOException {
        for (int id = 0; id < keys; id++) {
            client.session().execute(new SimpleStatement(
                    "INSERT INTO views.t (id, v) VALUES (?, 'v')", id)
                    .setConsistencyLevel(ConsistencyLevel.ALL));
        }
        try (NodeControl control = cluster.control(1)) {
            control.flush("views", "t");
        }
    }

    private static void read(Cluster.Client client, ConsistencyLevel level) {
        for (int id = 0; id < KEYS; id++) {
            client.session().execute(new SimpleStatement(
                    "SELECT * FROM views.t WHERE id = ?", id).setConsistencyLevel(level));
        }
    }

    private static long number(String attribute) throws IOException {
        try (NodeControl control = cluster.control(1)) {
            return ((Number) control.attribute(BEAN, attribute)).longValue();
        }
    }
}
