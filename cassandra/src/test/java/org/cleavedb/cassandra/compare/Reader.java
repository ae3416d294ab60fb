package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Session;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

/**
 * A reader that does one kind of reads at one consistency level, in several states of the table.
 * Each time it begins with reads that are not counted, so that caches and compiled code are warm.
 */
final class Reader {
    private static final int UNCOUNTED_PART = 10;
    private static final int PERCENT = 100;

    private final Settings settings;
    private final String table;
    private final String kind;
    private final ConsistencyLevel level;
    private final Latencies latencies = new Latencies();
    private Buckets files = new Buckets(new long[0]);
    private double seconds;
    private long operations;
    private long askedNodes;
    private long askedPrimaries;

    /** @param kind `read` or `scan` */
    Reader(Settings settings, String table, String kind, ConsistencyLevel level) {
        this.settings = settings;
        this.table = table;
        this.kind = kind;
        this.level = level;
    }

    void run(Session session, Counters counters, long count, long seed)
            throws InterruptedException {
        readBy(session, count / UNCOUNTED_PART, seed - 1, new Latencies());
        Counters.Totals before = counters.now();
        long begin = System.nanoTime();
        List<CqlBinding> bindings = readBy(session, count, seed, latencies);
        seconds += (System.nanoTime() - begin) / 1e9;
        operations += count;
        Counters.Totals after = counters.now();
        files = files.plus(kind.equals("read")
                ? after.pointReads.since(before.pointReads)
                : after.rangeReads.since(before.rangeReads));
        after.readsByNode.forEach((node, reads) -> {
            long asked = reads - before.readsByNode.get(node);
            long primary = bindings.stream()
                    .mapToLong(binding -> binding.askedByPrimary().getOrDefault(node, 0L)).sum();
            askedNodes += asked;
            askedPrimaries += Math.min(asked, primary);
        });
    }

    private List<CqlBinding> readBy(Session session, long count, long seed, Latencies into)
            throws InterruptedException {
        int clients = settings.count("clients");
        Ycsb workload = new Ycsb(settings, table, kind);
        ClientRing ring = new ClientRing(session);
        ExecutorService threads = Executors.newFixedThreadPool(clients);
        try {
            List<Future<CqlBinding>> running = new ArrayList<>();
            for (int client = 0; client < clients; client++) {
                long own = seed + client * 1_000_003L;
                running.add(threads.submit(() -> {
                    SeededRandom.seed(own);
                    CqlBinding binding = new CqlBinding(
                            session, level, ring, settings.number("records"), 1);
                    for (long operation = 0; operation < count / clients; operation++) {
                        long begin = System.nanoTime();
                        workload.transact(binding);
                        into.add(System.nanoTime() - begin);
                    }
                    return binding;
                }));
            }
            List<CqlBinding> bindings = new ArrayList<>();
            for (Future<CqlBinding> client : running) {
                bindings.add(client.get());
            }
            return bindings;
        } catch (ExecutionException failed) {
            throw new IllegalStateException("a reader failed: " + failed.getCause(), failed);
        } finally {
            threads.shutdownNow();
        }
    }

    void tell(Measurements figures) {
        String name = kind + '_' + level;
        figures.put(name + "_files", files.mean());
        figures.put(name + "_p50", latencies.percentile(50));
        figures.put(name + "_p99", latencies.percentile(99));
        figures.put(name + "_per_s", operations / seconds);
        figures.put(name + "_percent_primary", (double) PERCENT * askedPrimaries / askedNodes);
    }

    static List<ConsistencyLevel> levels(Settings settings) {
        return List.of(settings.text("levels").split(",")).stream()
                .map(ConsistencyLevel::valueOf).collect(Collectors.toList());
    }

    /** For every level, point reads and scans. */
    static List<Reader> all(Settings settings, String table) {
        List<Reader> readers = new ArrayList<>();
        for (ConsistencyLevel level : levels(settings)) {
            readers.add(new Reader(settings, table, "read", level));
            readers.add(new Reader(settings, table, "scan", level));
        }
        return readers;
    }

    /** The number of requests of this kind. */
    long wanted() {
        return settings.number(Map.of("read", "reads", "scan", "scans").get(kind));
    }
}
