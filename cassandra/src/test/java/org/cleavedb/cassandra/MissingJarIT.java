package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Checks that a node without the jar names the missing class and does not serve the table. */
@Tag("long")
class MissingJarIT {
    private static final String OURS = "org.cleavedb.cassandra.ReplicaDecouplingStrategy";

    @Test
    void aNodeWithoutTheJarNamesTheClassThatItLacks() throws IOException {
        Path folder = Path.of("target", "nodes-of-jar");
        try (Cluster cluster = new Cluster(new ClusterSpec(folder, 1))) {
            cluster.reset();
            cluster.start();
            try (Cluster.Client client = cluster.connect(1)) {
                client.execute("CREATE KEYSPACE k WITH replication = "
                        + "{'class': 'SimpleStrategy', 'replication_factor': 1}");
                client.execute("CREATE TABLE k.t (id int PRIMARY KEY) WITH compaction = "
                        + "{'class': '" + OURS + "'}");
            }
        }
        try (Cluster without = new Cluster(new ClusterSpec(folder, 1).withoutOurClasses())) {
            IOException refusal = assertThrows(IOException.class, without::start);
            assertTrue(refusal.getMessage().contains(OURS), refusal.getMessage());
        }
        try (Cluster again = new Cluster(new ClusterSpec(folder, 1))) {
            again.start();
        }
    }
}
