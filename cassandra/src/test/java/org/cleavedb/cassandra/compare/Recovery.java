package org.cleavedb.cassandra.compare;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;

/**
 * `cassandra/cluster recover`: node 3 loses its copies and gets them back in one of the ways that
 * stock Cassandra offers, layout by layout. Bytes come from the nodes' counters of streams and,
 * for what they read, from the kernel's counters of each process.
 */
final class Recovery {
    private static final int LOST = Comparison.NODES;
    private static final String STREAMS =
            "org.apache.cassandra.metrics:type=Streaming,name=TotalOutgoingBytes";
    private static final double MEGA = 1e6;
    private static final double ENOUGH = 0.95;

    private final Settings settings;
    private final String way;

    Recovery(Settings settings) {
        this.settings = settings;
        way = settings.text("way");
        if (!List.of("repair", "rebuild", "replace").contains(way)) {
            throw new IllegalArgumentException(
                    "way is `repair`, `rebuild` or `replace`, not `" + way + "`");
        }
    }

    void run() throws IOException, InterruptedException {
        System.out.println("| layout | way | s to be whole | s until quiet | MB streamed "
                + "| MB read by sources | MB read by the lost node | MB compacted there "
                + "| live MB before | live MB after |\n|---|---|---|---|---|---|---|---|---|---|");
        List<Layout> layouts = Layout.chosen(settings);
        for (int repeat = 0; repeat < settings.number("repeats"); repeat++) {
            for (Layout layout : layouts) {
                try (Cluster cluster = new Cluster(spec())) {
                    cluster.reset();
                    cluster.start();
                    System.out.println(measure(cluster, layout,
                            settings.number("seed") + repeat));
                }
            }
        }
    }

    private ClusterSpec spec() {
        return Comparison.spec(settings)
                // Otherwise files are mapped, and the kernel does not count what is read.
                .setting("disk_access_mode: standard")
                .setting("stream_entire_sstables: " + settings.text("whole_files"));
    }

    private String measure(Cluster cluster, Layout layout, long seed)
            throws IOException, InterruptedException {
        double liveBefore = load(cluster, layout, seed);
        cluster.stop(LOST);
        if (!way.equals("replace")) {
            loseTable(cluster, layout);
            cluster.start(LOST);
            for (int node = 1; node <= Comparison.NODES; node++) {
                cluster.awaitLive(node, Comparison.NODES);
            }
        }
        Map<String, Double> before = sources(cluster);
        double readBefore = way.equals("replace") ? 0 : bytesRead(cluster, LOST);
        long begin = System.nanoTime();
        recover(cluster, layout);
        double whole = (System.nanoTime() - begin) / 1e9;
        Map<String, Double> after = sources(cluster);
        try (Counters counters = new Counters(
                cluster, Comparison.NODES, Comparison.KEYSPACE, layout.name)) {
            counters.awaitQuiet();
        }
        double quiet = (System.nanoTime() - begin) / 1e9;
        return line(cluster, layout, liveBefore, List.of(whole, quiet,
                (after.get("streamed") - before.get("streamed")) / MEGA,
                (after.get("read") - before.get("read")) / MEGA,
                (bytesRead(cluster, LOST) - readBefore) / MEGA));
    }

    private double load(Cluster cluster, Layout layout, long seed)
            throws IOException, InterruptedException {
        try (Cluster.Client client = cluster.connectAll()) {
            Comparison.createKeyspace(client);
            LayoutRun run = new LayoutRun(settings, cluster, Comparison.NODES, client,
                    Comparison.KEYSPACE, layout, seed);
            run.create();
            try (Counters counters = new Counters(
                    cluster, Comparison.NODES, Comparison.KEYSPACE, layout.name)) {
                run.load(counters);
            }
        }
        try (NodeControl control = cluster.control(LOST)) {
            return table(control, layout, "LiveDiskSpaceUsed", "Count");
        }
    }

    private void recover(Cluster cluster, Layout layout) throws IOException {
        switch (way) {
            case "repair":
                try (NodeControl control = cluster.control(LOST)) {
                    control.repair(Comparison.KEYSPACE, false, layout.name);
                }
                break;
            case "rebuild":
                try (NodeControl control = cluster.control(LOST)) {
                    control.invoke("org.apache.cassandra.db:type=StorageService", "rebuild",
                            new Object[] {null}, new String[] {"java.lang.String"});
                }
                break;
            default:
                cluster.wipe(LOST);
                new Cluster(spec().bootstrap().javaArgument(
                        "-Dcassandra.replace_address_first_boot="
                                + cluster.layout(LOST).address())).start(LOST);
        }
    }

    private static void loseTable(Cluster cluster, Layout layout) throws IOException {
        List<Path> lost;
        Path folder = cluster.layout(LOST).disks().get(0).resolve(Comparison.KEYSPACE);
        try (Stream<Path> tables = Files.list(folder)) {
            lost = tables.filter(table -> table.getFileName().toString()
                    .startsWith(layout.name + '-')).collect(Collectors.toList());
        }
        // The commit log could bring the latest back, so it is lost too.
        lost.add(cluster.layout(LOST).commitLog());
        for (Path table : lost) {
            try (Stream<Path> files = Files.walk(table)) {
                for (Path file : files.sorted(Comparator.reverseOrder())
                        .collect(Collectors.toList())) {
                    if (Files.isRegularFile(file)) {
                        Files.delete(file);
                    }
                }
            }
        }
    }

    /** The bytes that the intact nodes have sent and read so far. */
    private static Map<String, Double> sources(Cluster cluster) throws IOException {
        Map<String, Double> sums = new LinkedHashMap<>();
        for (int node = 1; node < LOST; node++) {
            try (NodeControl control = cluster.control(node)) {
                sums.merge("streamed", streamed(control), Double::sum);
            }
            sums.merge("read", bytesRead(cluster, node), Double::sum);
        }
        return sums;
    }

    /** A node that has not streamed yet has no such counter. */
    private static double streamed(NodeControl control) {
        return control.has(STREAMS)
                ? ((Number) control.attribute(STREAMS, "Count")).doubleValue() : 0;
    }

    /** Bytes that the process has read, files and sockets together, cached or not. */
    private static double bytesRead(Cluster cluster, int node) throws IOException {
        Path counters = Path.of("/proc", Long.toString(cluster.processId(node)), "io");
        for (String line : Files.readAllLines(counters)) {
            if (line.startsWith("rchar:")) {
                return Double.parseDouble(line.substring("rchar:".length()));
            }
        }
        throw new IOException(counters + " has no line `rchar`; this needs Linux");
    }

    private static double table(
            NodeControl control, Layout layout, String metric, String attribute) {
        return ((Number) control.attribute("org.apache.cassandra.metrics:type=Table,keyspace="
                + Comparison.KEYSPACE + ",scope=" + layout.name + ",name=" + metric, attribute))
                .doubleValue();
    }

    private String line(Cluster cluster, Layout layout, double liveBefore, List<Double> measured)
            throws IOException {
        try (NodeControl control = cluster.control(LOST)) {
            double rows = table(control, layout, "EstimatedPartitionCount", "Value");
            if (rows < ENOUGH * settings.number("records")) {
                throw new IllegalStateException("node " + LOST + " has about " + rows
                        + " rows after the " + way + ", not " + settings.number("records"));
            }
            return String.format("| %s | %s | %.1f | %.1f | %.0f | %.0f | %.0f | %.0f | %.0f "
                    + "| %.0f |", layout.name, way, measured.get(0), measured.get(1),
                    measured.get(2), measured.get(3), measured.get(4),
                    table(control, layout, "CompactionBytesWritten", "Count") / MEGA,
                    liveBefore / MEGA,
                    table(control, layout, "LiveDiskSpaceUsed", "Count") / MEGA);
        }
    }
}
