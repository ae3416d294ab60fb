package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.Path;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;

/**
 * The two nodes of all quick tests, which share them because a start takes longer than most tests.
 * Keyspaces have two copies, so that each node has the primary copies of one half of every table.
 * The second node has two disks. The nodes stop when the tests end.
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

    /** Connects to a node and creates a keyspace; the client is closed with the nodes. */
    static Cluster.Client connect(int node, String keyspace) throws IOException {
        Cluster.Client client = cluster().connect(node);
        createKeyspace(client, keyspace);
        return client;
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
