package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.Path;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;

/**
 * Two nodes for all quick tests, since starting them takes longer than most of these. Keyspaces
 * have two copies of everything, so that each node is primary for one half of every table. The
 * second node spreads its tables over two disks. They end with the tests.
 */
final class SharedNodes {
    static final int NODES = 2;
    private static Cluster cluster;

    private SharedNodes() {
    }

    static synchronized Cluster cluster() throws IOException {
        if (cluster == null) {
            Cluster fresh = new Cluster(new ClusterSpec(Path.of("target", "nodes"), NODES)
                    .tokensPerNode(4).twoDisks(2)
                    .setting("cdc_enabled: true")
                    .setting("memtable: {configurations: {trie: {class_name: TrieMemtable}}}"));
            fresh.reset();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> close(fresh)));
            cluster = fresh.start();
        }
        return cluster;
    }

    static void createKeyspace(Cluster.Client client, String name) {
        client.execute("CREATE KEYSPACE " + name + " WITH replication = {'class': "
                + "'SimpleStrategy', 'replication_factor': " + NODES + "}");
    }

    private static void close(Cluster cluster) {
        try {
            cluster.close();
        } catch (IOException failure) {
            System.err.println("the nodes of the tests do not end: " + failure.getMessage());
        }
    }
}
