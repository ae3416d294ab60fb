package org.cleavedb.cassandra.compare;

import java.io.IOException;
import java.util.List;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;

/** The nodes' own numbers of one table, summed over the nodes. */
final class Counters {
    private static final int QUIET_LOOKS = 5;
    private static final long POLL_MS = 500;

    private final Cluster cluster;
    private final int nodes;
    private final String keyspace;
    private final String table;

    Counters(Cluster cluster, int nodes, String keyspace, String table) {
        this.cluster = cluster;
        this.nodes = nodes;
        this.keyspace = keyspace;
        this.table = table;
    }

    long flushed() throws IOException {
        return sum("BytesFlushed");
    }

    long compacted() throws IOException {
        return sum("CompactionBytesWritten");
    }

    long live() throws IOException {
        return sum("LiveDiskSpaceUsed");
    }

    long files() throws IOException {
        long files = 0;
        for (int node = 1; node <= nodes; node++) {
            try (NodeControl control = cluster.control(node)) {
                files += ((Number) control.attribute(name("LiveSSTableCount"), "Value"))
                        .longValue();
            }
        }
        return files;
    }

    /** How many SSTables a read met, on average over all reads of the recent past. */
    double filesPerRead() throws IOException {
        double weighted = 0;
        double reads = 0;
        for (int node = 1; node <= nodes; node++) {
            try (NodeControl control = cluster.control(node)) {
                String name = name("SSTablesPerReadHistogram");
                double count = ((Number) control.attribute(name, "Count")).doubleValue();
                reads += count;
                weighted += count * ((Number) control.attribute(name, "Mean")).doubleValue();
            }
        }
        return reads == 0 ? 0 : weighted / reads;
    }

    void flush() throws IOException {
        for (int node = 1; node <= nodes; node++) {
            try (NodeControl control = cluster.control(node)) {
                control.flush(keyspace, table);
            }
        }
    }

    /** Waits until no node compacts or means to. */
    void awaitQuiet() throws IOException, InterruptedException {
        for (int node = 1; node <= nodes; node++) {
            try (NodeControl control = cluster.control(node)) {
                for (int quiet = 0; quiet < QUIET_LOOKS; quiet++) {
                    if (isBusy(control)) {
                        quiet = -1;
                    }
                    Thread.sleep(POLL_MS);
                }
            }
        }
    }

    private static boolean isBusy(NodeControl control) {
        Object pending = control.attribute(
                "org.apache.cassandra.metrics:type=Compaction,name=PendingTasks", "Value");
        List<?> active = (List<?>) control.attribute(
                "org.apache.cassandra.db:type=CompactionManager", "Compactions");
        return ((Number) pending).intValue() > 0 || !active.isEmpty();
    }

    private long sum(String metric) throws IOException {
        long sum = 0;
        for (int node = 1; node <= nodes; node++) {
            try (NodeControl control = cluster.control(node)) {
                sum += ((Number) control.attribute(name(metric), "Count")).longValue();
            }
        }
        return sum;
    }

    private String name(String metric) {
        return "org.apache.cassandra.metrics:type=Table,keyspace=" + keyspace + ",scope=" + table
                + ",name=" + metric;
    }
}
