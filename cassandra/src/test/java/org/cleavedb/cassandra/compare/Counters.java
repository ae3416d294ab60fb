package org.cleavedb.cassandra.compare;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;

/** The counters of one table, summed over all nodes. */
final class Counters implements AutoCloseable {
    private static final int QUIET_LOOKS = 4;
    private static final long POLL_MS = 100;
    private static final double NANOS = 1e9;

    /** The counters of bytes written per role: name in the figures, name in our managed object. */
    static final Map<String, String> ROLES = new LinkedHashMap<>();

    static {
        ROLES.put("primary_flushed", "PrimaryBytesFlushed");
        ROLES.put("primary_compacted", "PrimaryBytesCompacted");
        ROLES.put("redundant_flushed", "RedundantBytesFlushed");
        ROLES.put("split", "BytesSplit");
        ROLES.put("merged", "BytesMerged");
        ROLES.put("taken_apart", "BytesSeparated");
    }

    private final Map<String, NodeControl> nodes = new LinkedHashMap<>();
    private final String keyspace;
    private final String table;

    Counters(Cluster cluster, int nodes, String keyspace, String table) throws IOException {
        this.keyspace = keyspace;
        this.table = table;
        for (int node = 1; node <= nodes; node++) {
            this.nodes.put(cluster.layout(node).address(), cluster.control(node));
        }
    }

    /** The counters at a moment; measurements are differences of two. */
    static final class Totals {
        double flushed;
        double compacted;
        double cpuSeconds;
        double flushes;
        /** Empty under stock layouts. */
        final Map<String, Double> byRole = new LinkedHashMap<>();
        Buckets pointReads = new Buckets(new long[0]);
        Buckets rangeReads = new Buckets(new long[0]);
        final Map<String, Long> readsByNode = new LinkedHashMap<>();
    }

    Totals now() {
        Totals state = new Totals();
        nodes.forEach((address, node) -> {
            state.flushed += number(node, "BytesFlushed", "Count");
            state.compacted += number(node, "CompactionBytesWritten", "Count");
            state.flushes += number(node, "MemtableSwitchCount", "Count");
            if (node.has(ours())) {
                ROLES.forEach((role, attribute) -> state.byRole.merge(role, ((Number)
                        node.attribute(ours(), attribute)).doubleValue(), Double::sum));
            }
            state.cpuSeconds += ((Number) node.attribute(
                    "java.lang:type=OperatingSystem", "ProcessCpuTime")).doubleValue() / NANOS;
            Buckets point = buckets(node, "SSTablesPerReadHistogram");
            Buckets range = buckets(node, "SSTablesPerRangeReadHistogram");
            state.pointReads = state.pointReads.plus(point);
            state.rangeReads = state.rangeReads.plus(range);
            state.readsByNode.put(address, point.count() + range.count());
        });
        return state;
    }

    double live() {
        return sum("LiveDiskSpaceUsed", "Count");
    }

    double files() {
        return sum("LiveSSTableCount", "Value");
    }

    void flush() {
        nodes.values().forEach(node -> node.flush(keyspace, table));
    }

    /** Waits until no node has running or pending compactions. */
    void awaitQuiet() throws InterruptedException {
        for (int quiet = 0; quiet < QUIET_LOOKS; quiet++) {
            Thread.sleep(POLL_MS);
            if (nodes.values().stream().anyMatch(Counters::isBusy)) {
                quiet = -1;
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

    private double sum(String metric, String attribute) {
        return nodes.values().stream()
                .mapToDouble(node -> number(node, metric, attribute)).sum();
    }

    private double number(NodeControl node, String metric, String attribute) {
        return ((Number) node.attribute(name(metric), attribute)).doubleValue();
    }

    private Buckets buckets(NodeControl node, String metric) {
        return new Buckets((long[]) node.invoke(name(metric), "values"));
    }

    private String name(String metric) {
        return "org.apache.cassandra.metrics:type=Table,keyspace=" + keyspace + ",scope=" + table
                + ",name=" + metric;
    }

    private String ours() {
        return "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=" + keyspace + ",table="
                + table;
    }

    @Override
    public void close() throws IOException {
        for (NodeControl node : new ArrayList<>(nodes.values())) {
            node.close();
        }
    }
}
