package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.ConsistencyLevel;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import org.cleavedb.cassandra.cluster.Cluster;

/**
 * One run of one layout. An empty table is altered to the layout. The workload is written in
 * rounds, and compaction catches up after each. After some of the rounds the table is read. Then it
 * is dropped.
 *
 * <p>Because of the rounds, the bytes depend on the layout and not on the backlog of compactions on
 * a busy machine. The table is read in several states because its number of SSTables varies.
 */
final class LayoutRun {
    private final Settings settings;
    private final Cluster cluster;
    private final int nodes;
    private final Cluster.Client client;
    private final String keyspace;
    private final String table;
    private final Layout layout;
    private final long seed;
    private double secondsOfWriting;

    LayoutRun(Settings settings, Cluster cluster, int nodes, Cluster.Client client,
            String keyspace, Layout layout, long seed) {
        this.settings = settings;
        this.cluster = cluster;
        this.nodes = nodes;
        this.client = client;
        this.keyspace = keyspace;
        this.layout = layout;
        this.seed = seed;
        table = keyspace + '.' + layout.name;
    }

    Measurements run() throws IOException, InterruptedException {
        create();
        try (Counters counters = new Counters(cluster, nodes, keyspace, layout.name)) {
            Counters.Totals begin = counters.now();
            CqlBinding writer = writer();
            List<Reader> readers = Reader.all(settings, table);
            double cpuOfReading = writeAndRead(counters, writer, readers);
            Counters.Totals end = counters.now();

            Measurements figures = new Measurements(layout.name);
            double user = (double) writer.bytesWritten() * nodes;
            figures.put("user_bytes", writer.bytesWritten());
            figures.put("flushed", (end.flushed - begin.flushed) / user);
            figures.put("compacted", (end.compacted - begin.compacted) / user);
            end.byRole.forEach((role, bytes) -> figures.put(
                    role, (bytes - begin.byRole.getOrDefault(role, 0.0)) / user));
            figures.put("flushes_per_node", (end.flushes - begin.flushes) / nodes);
            figures.put("live_mb_per_node", counters.live() / nodes / 1e6);
            figures.put("files_per_node", counters.files() / nodes);
            figures.put("writes_per_s", operations() / secondsOfWriting);
            figures.put("cpu_us_per_write",
                    (end.cpuSeconds - begin.cpuSeconds - cpuOfReading) * 1e6 / operations());
            readers.forEach(reader -> reader.tell(figures));
            return figures;
        } finally {
            client.execute("DROP TABLE IF EXISTS " + table);
        }
    }

    /** Only writes, and leaves the table there. */
    void load(Counters counters) throws InterruptedException {
        writeAndRead(counters, writer(), List.of());
    }

    private CqlBinding writer() {
        return new CqlBinding(client.session(),
                ConsistencyLevel.valueOf(settings.text("write_level")),
                new ClientRing(client.session()), settings.number("records"),
                settings.count("in_flight"));
    }

    /** Every layout begins as the same stock table, and is altered. */
    void create() {
        client.execute("CREATE TABLE " + table + " "
                + CqlBinding.columns(settings.count("fields"))
                + " WITH compression = {'enabled': 'false'}"
                // A second try at another replica would blur who answers.
                + " AND speculative_retry = 'NEVER'");
        client.execute("ALTER TABLE " + table + " WITH compaction = " + layout.compaction);
    }

    private long operations() {
        return settings.number("records") + settings.updates();
    }

    /** Returns the processor time that reading took. */
    private double writeAndRead(Counters counters, CqlBinding writer, List<Reader> readers)
            throws InterruptedException {
        int rounds = settings.count("rounds");
        Set<Integer> sampled = sampledRounds(rounds, settings.count("samples"));
        Ycsb inserting = new Ycsb(settings, table, "insert");
        Ycsb updating = new Ycsb(settings, table, "update");
        SeededRandom.seed(seed);
        double cpuOfReading = 0;
        long done = 0;
        for (int round = 1; round <= rounds; round++) {
            long begin = System.nanoTime();
            for (; done < operations() * round / rounds; done++) {
                if (done < settings.number("records")) {
                    inserting.insert(writer);
                } else {
                    updating.transact(writer);
                }
            }
            writer.await();
            if (sampled.contains(round)) {
                counters.flush();
            }
            counters.awaitQuiet();
            secondsOfWriting += (System.nanoTime() - begin) / 1e9;
            if (sampled.contains(round)) {
                double before = counters.now().cpuSeconds;
                for (Reader reader : readers) {
                    reader.run(client.session(), counters, reader.wanted() / sampled.size(),
                            seed * 31 + round);
                }
                cpuOfReading += counters.now().cpuSeconds - before;
            }
        }
        return cpuOfReading;
    }

    /** Spread over the second half, the last one included. */
    static Set<Integer> sampledRounds(int rounds, int samples) {
        Set<Integer> chosen = new TreeSet<>();
        for (int sample = 0; sample < samples; sample++) {
            chosen.add(rounds - sample * rounds / (2 * samples));
        }
        return chosen;
    }
}
