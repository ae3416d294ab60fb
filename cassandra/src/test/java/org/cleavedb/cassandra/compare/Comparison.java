package org.cleavedb.cassandra.compare;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;

/**
 * `cassandra/cluster compare`: three nodes, three copies, YCSB's core workload over each layout in
 * turn, and a table of what the nodes' own counters say. `cassandra/cluster report` prints the
 * table again from a file of results, and `recover` is {@link Recovery}.
 */
public final class Comparison {
    static final int NODES = 3;
    static final String KEYSPACE = "ycsb";
    private static final int WARM_UP_RECORDS = 3000;

    private final Settings settings;
    private final List<Measurements> results = new ArrayList<>();

    private Comparison(Settings settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) throws Exception {
        try {
            List<String> words = List.of(arguments);
            Settings settings = Settings.parse(words.subList(1, words.size()));
            switch (words.get(0)) {
                case "compare":
                    new Comparison(settings).run();
                    break;
                case "recover":
                    new Recovery(settings).run();
                    break;
                default:
                    report(settings, read(Path.of(settings.text("results"))));
            }
            System.exit(0);
        } catch (NumberFormatException defect) {
            throw defect;
        } catch (IllegalArgumentException mistake) {
            System.err.println("cluster: " + mistake.getMessage());
            System.exit(2);
        }
    }

    private void run() throws IOException, InterruptedException {
        List<Layout> layouts = Layout.chosen(settings);
        try (Cluster cluster = new Cluster(spec(settings))) {
            cluster.reset();
            cluster.start();
            try (Cluster.Client client = cluster.connectAll()) {
                createKeyspace(client);
                warmUp(cluster, client, layouts.get(0));
                for (int repeat = 0; repeat < settings.number("repeats"); repeat++) {
                    for (Layout layout : layouts) {
                        keep(new LayoutRun(settings, cluster, NODES, client, KEYSPACE,
                                layout, settings.number("seed") + repeat).run());
                    }
                    // None is always the first, or always after the same one.
                    Collections.rotate(layouts, 1 + layouts.size() / 2);
                }
            }
        }
        report(settings, results);
    }

    static ClusterSpec spec(Settings settings) {
        return new ClusterSpec(Path.of("target", "nodes-of-compare-" + settings.text("network")),
                NODES)
                .network(settings.count("network"))
                .tokensPerNode(settings.count("tokens"))
                .heap(settings.text("heap"))
                // As nodes run in production; tests have them check themselves.
                .javaArgument("-da")
                .setting("memtable_heap_space: " + settings.text("memtable_mb") + "MiB")
                .setting("hinted_handoff_enabled: false");
    }

    static void createKeyspace(Cluster.Client client) {
        client.execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': " + NODES + "}");
    }

    /** The first layout must not pay for code that is not compiled yet. */
    private void warmUp(Cluster cluster, Cluster.Client client, Layout layout)
            throws IOException, InterruptedException {
        Settings little = Settings.parse(List.of("records=" + WARM_UP_RECORDS, "rounds=4",
                "fields=" + settings.text("fields"), "field=" + settings.text("field"),
                "levels=" + settings.text("levels")));
        new LayoutRun(little, cluster, NODES, client, KEYSPACE, layout, 1).run();
    }

    private void keep(Measurements figures) throws IOException {
        results.add(figures);
        System.out.println(figures.line());
        if (!settings.text("results").isEmpty()) {
            Files.writeString(Path.of(settings.text("results")), figures.line() + "\n",
                    StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    static List<Measurements> read(Path results) throws IOException {
        List<Measurements> all = new ArrayList<>();
        for (String line : Files.readAllLines(results)) {
            all.add(Measurements.parse(line));
        }
        return all;
    }

    static void report(Settings settings, List<Measurements> results) throws IOException {
        Report report = new Report(results, Reader.levels(settings));
        System.out.println();
        System.out.println(report.tables());
        if (!settings.text("record").isEmpty()) {
            report.write(Path.of(settings.text("record")), settings.asSaid());
        }
    }
}
