package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Session;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import site.ycsb.DB;
import site.ycsb.Workload;
import site.ycsb.WorkloadException;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/**
 * `cassandra/cluster compare`: three nodes, three copies, YCSB's core workload over each layout in
 * turn, and a table of what the nodes' own counters say. Bytes and files are compared, not speed:
 * on one machine the nodes share its processors.
 */
public final class Comparison {
    private static final int NODES = 3;
    private static final int FIELDS = 10;
    private static final String KEYSPACE = "ycsb";

    private final Map<String, String> settings;
    private final long records;
    private final long updates;
    private final long reads;
    private Cluster cluster;
    private Session session;

    private Comparison(Map<String, String> settings) {
        this.settings = settings;
        records = number("records", 20_000);
        updates = number("updates", 2 * records);
        reads = number("reads", 5_000);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = new TreeMap<>();
        for (String argument : List.of(arguments).subList(1, arguments.length)) {
            String[] parts = argument.split("=", 2);
            if (parts.length != 2) {
                System.err.println("cluster compare [records=N] [updates=N] [reads=N] "
                        + "[field=BYTES] [tokens=N] [heap=SIZE] [layouts=NAME,NAME…]\nlayouts: "
                        + Layout.ALL.stream().map(layout -> layout.name)
                                .collect(Collectors.joining(", ")));
                System.exit(2);
            }
            settings.put(parts[0], parts[1]);
        }
        new Comparison(settings).run();
        System.exit(0);
    }

    private void run() throws IOException, InterruptedException, WorkloadException {
        List<Layout> layouts = settings.containsKey("layouts")
                ? Arrays.stream(settings.get("layouts").split(",")).map(Layout::named)
                        .collect(Collectors.toList())
                : Layout.ALL;
        cluster = new Cluster(new ClusterSpec(Path.of("target", "nodes-of-compare"), NODES)
                .tokensPerNode((int) number("tokens", 4))
                .heap(settings.getOrDefault("heap", "384M")));
        cluster.reset();
        List<String> lines = new ArrayList<>(List.of(
                "| layout | flushed | compacted | total | live | files | files/read at ONE "
                        + "| files/read at ALL |",
                "|---|---|---|---|---|---|---|---|"));
        try {
            cluster.start();
            try (Cluster.Client client = cluster.connectAll()) {
                session = client.session();
                client.execute("CREATE KEYSPACE " + KEYSPACE + " WITH replication = "
                        + "{'class': 'SimpleStrategy', 'replication_factor': " + NODES + "}");
                for (Layout layout : layouts) {
                    String line = measure(layout);
                    System.out.println(line);
                    lines.add(line);
                }
            }
        } finally {
            cluster.close();
        }
        System.out.println();
        lines.forEach(System.out::println);
        System.out.println();
        System.out.println("Bytes are per byte that a user wrote and copy: " + records
                + " inserts, " + updates + " updates (zipfian) of " + FIELDS + " × "
                + number("field", 100) + " bytes; files are per node; " + reads
                + " reads at each level (zipfian). At ONE, the primary answers.");
    }

    private String measure(Layout layout)
            throws IOException, InterruptedException, WorkloadException {
        session.execute("CREATE TABLE " + KEYSPACE + "." + layout.name
                + " " + CqlBinding.columns(FIELDS) + " WITH compression = {'enabled': 'false'} "
                + "AND compaction = " + layout.compaction);
        Counters counters = new Counters(cluster, NODES, KEYSPACE, layout.name);
        CqlBinding everywhere = new CqlBinding(session, ConsistencyLevel.ALL);
        Workload load = workload(layout, "update");
        Object loader = load.initThread(new Properties(), 0, 1);
        for (long record = 0; record < records; record++) {
            load.doInsert(everywhere, loader);
        }
        transact(load, loader, everywhere, updates);
        counters.flush();
        counters.awaitQuiet();

        double written = (double) (records + updates) * FIELDS * number("field", 100) * NODES;
        Workload reading = workload(layout, "read");
        Object reader = reading.initThread(new Properties(), 0, 1);
        double before = counters.filesPerRead();
        transact(reading, reader, new CqlBinding(session, ConsistencyLevel.ONE), reads);
        double one = counters.filesPerRead();
        transact(reading, reader, everywhere, reads);
        double all = counters.filesPerRead();
        String line = String.format("| %s | %.2f | %.2f | %.2f | %.2f | %d | %.2f | %.2f |",
                layout.name, counters.flushed() / written, counters.compacted() / written,
                (counters.flushed() + counters.compacted()) / written,
                counters.live() / ((double) records * FIELDS * number("field", 100) * NODES),
                counters.files() / NODES, one, all);
        if (before != 0) {
            throw new IllegalStateException("the table " + layout.name + " was read before");
        }
        session.execute("DROP TABLE " + KEYSPACE + "." + layout.name);
        return line;
    }

    private static void transact(Workload workload, Object thread, DB db, long count) {
        for (long operation = 0; operation < count; operation++) {
            if (!workload.doTransaction(db, thread)) {
                throw new IllegalStateException("YCSB gave up at operation " + operation);
            }
        }
    }

    private Workload workload(Layout layout, String only) throws WorkloadException {
        Properties properties = new Properties();
        properties.setProperty("table", KEYSPACE + "." + layout.name);
        properties.setProperty("recordcount", Long.toString(records));
        properties.setProperty("operationcount", Long.toString(updates + 2 * reads));
        properties.setProperty("fieldcount", Integer.toString(FIELDS));
        properties.setProperty("fieldlength", Long.toString(number("field", 100)));
        properties.setProperty("writeallfields", "true");
        properties.setProperty("requestdistribution", "zipfian");
        for (String kind : List.of("read", "update", "insert", "scan", "readmodifywrite")) {
            properties.setProperty(kind + "proportion", kind.equals(only) ? "1" : "0");
        }
        Measurements.setProperties(properties);
        Workload workload = new CoreWorkload();
        workload.init(properties);
        return workload;
    }

    private long number(String name, long otherwise) {
        return Long.parseLong(settings.getOrDefault(name, Long.toString(otherwise)));
    }
}
