package org.cleavedb.cassandra;

import com.datastax.driver.core.ConsistencyLevel;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.NodeControl;

/**
 * One run of the differential test: rounds of random changes, each followed by an event in the life
 * of the nodes, after which both tables must give the same answers. The seed decides everything.
 */
final class Differential {
    private static final String CLASS = "'class': 'org.cleavedb.cassandra."
            + "ReplicaDecouplingStrategy', 'settle_seconds': '0', 'sstable_size_in_mb': '1'";
    private static final String COUNTER_COLUMNS = "(p int, c int, n counter, PRIMARY KEY (p, c))";

    /** The events that may happen to the nodes between two rounds. */
    enum Event {
        FLUSH, FLUSH_OURS, COMPACT, ALTER_OPTIONS, ALTER_TO_STOCK, RESTART, KILL, REPAIR
    }

    private final Cluster cluster;
    private final int nodes;
    private final String keyspace;
    private final long seed;
    private final Random random;
    private final RandomOperations operations;
    private final TablePair rows;
    private final TablePair counters;
    private final TablePair conditions;
    private final StringBuilder story = new StringBuilder();
    private Cluster.Client client;

    Differential(Cluster cluster, int nodes, String keyspace, long seed) {
        this.cluster = cluster;
        this.nodes = nodes;
        this.keyspace = keyspace;
        this.seed = seed;
        random = new Random(seed);
        operations = new RandomOperations(random.nextLong(), purgesAtOnce());
        rows = new TablePair(keyspace, "rows" + seed);
        counters = new TablePair(keyspace, "counters" + seed);
        conditions = new TablePair(keyspace, "conditions" + seed);
    }

    /** With every other seed, tombstones are purged as early as possible. */
    private boolean purgesAtOnce() {
        return seed % 2 == 0;
    }

    void create() {
        client = cluster.connect(1);
        String options = purgesAtOnce() ? " AND gc_grace_seconds = 0" : "";
        rows.create(client, RandomOperations.columns(), options, ours());
        counters.create(client, COUNTER_COLUMNS, options, ours());
        conditions.create(client, RandomOperations.columns(), options, ours());
    }

    void close() {
        client.close();
    }

    void round(Event event, int changes) throws IOException {
        story.append(' ').append(event);
        for (int change = 0; change < changes; change++) {
            rows.change(client, "UNLOGGED", operations.next());
            if (change % 8 == 0) {
                counters.change(client, "COUNTER", "UPDATE %s SET n = n + " + random.nextInt(9)
                        + " WHERE p = " + random.nextInt(4) + " AND c = " + random.nextInt(4));
            }
            if (change % 32 == 0) {
                conditions.changeIf(client, condition());
            }
        }
        happen(event);
        // The read at ALL repairs differences between the nodes, so it comes last.
        compare(client, ConsistencyLevel.ONE);
        compare(client, ConsistencyLevel.QUORUM);
        compare(client, ConsistencyLevel.ALL);
    }

    private String condition() {
        String where = " WHERE p = " + random.nextInt(2) + " AND c = " + random.nextInt(2);
        switch (random.nextInt(3)) {
            case 0:
                return "INSERT INTO %s (p, c, n) VALUES (" + random.nextInt(2) + ", "
                        + random.nextInt(2) + ", 0) IF NOT EXISTS";
            case 1:
                return "UPDATE %s SET n = " + random.nextInt(3) + where + " IF n = "
                        + random.nextInt(3);
            default:
                return "DELETE FROM %s" + where + " IF EXISTS";
        }
    }

    private void happen(Event event) throws IOException {
        switch (event) {
            case FLUSH:
                flush(rows.ours(), rows.stock(), counters.ours(), conditions.ours());
                break;
            case FLUSH_OURS:
                flush(rows.ours());
                break;
            case COMPACT:
                onEach(control -> control.compact(keyspace, rows.ours(), counters.ours()));
                break;
            case ALTER_OPTIONS:
                rows.alterOurs(client, ours());
                counters.alterOurs(client, ours());
                break;
            case ALTER_TO_STOCK:
                rows.alterOurs(client, random.nextBoolean()
                        ? "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '1'}"
                        : "{'class': 'UnifiedCompactionStrategy'}");
                break;
            case RESTART:
            case KILL:
                alone(event);
                break;
            case REPAIR:
                repair();
                break;
            default:
                throw new IllegalArgumentException(event.toString());
        }
    }

    /** Stops one node: the others, with their redundant copies, must answer without it. */
    private void alone(Event event) throws IOException {
        int gone = 1 + random.nextInt(nodes);
        client.close();
        if (event == Event.KILL) {
            cluster.kill(gone);
        } else {
            cluster.stop(gone);
        }
        client = cluster.connect(gone % nodes + 1);
        cluster.awaitLive(gone % nodes + 1, nodes - 1);
        compare(client, ConsistencyLevel.ONE);
        cluster.start(gone);
        client.close();
        client = cluster.connect(gone);
        for (int node = 1; node <= nodes; node++) {
            cluster.awaitLive(node, nodes);
        }
    }

    private void repair() throws IOException {
        int node = 1 + random.nextInt(nodes);
        try (NodeControl control = cluster.control(node)) {
            control.repair(keyspace, random.nextBoolean(), rows.ours());
        }
    }

    private void flush(String... tables) throws IOException {
        onEach(control -> control.flush(keyspace, tables));
    }

    /** A command of an operator to a node. */
    private interface Action {
        void on(NodeControl control);
    }

    private void onEach(Action action) throws IOException {
        for (int node = 1; node <= nodes; node++) {
            try (NodeControl control = cluster.control(node)) {
                action.on(control);
            }
        }
    }

    private String ours() {
        if (random.nextInt(4) == 0) {
            return "{" + CLASS + ", 'redundant': 'trees'}";
        }
        String ordering = random.nextInt(4) == 0
                ? "'auto', 'ordering_seconds': '1'" : "'" + (1 + random.nextInt(4)) + "'";
        return "{" + CLASS + ", 'ordering': " + ordering + ", 'split_segments': '"
                + (1 + random.nextInt(3)) + "', 'groups': '" + (1 + random.nextInt(5)) + "'}";
    }

    private void compare(Cluster.Client by, ConsistencyLevel level) {
        String when = "seed " + seed + " after" + story;
        rows.compare(by, level, queries(), when);
        counters.compare(by, level, List.of("SELECT * FROM %s"), when);
        conditions.compare(by, level, List.of("SELECT * FROM %s"), when);
    }

    /**
     * The queries, each of which names every column. In Cassandra itself, a row that was written by
     * UPDATE and has no value in the selected columns, or with DISTINCT its partition, is shown or
     * not depending on whether it still lies in a memtable.
     */
    private List<String> queries() {
        List<String> queries = new ArrayList<>(Arrays.asList(
                "SELECT * FROM %s",
                "SELECT p, c, s, v, n, m, e, l, f, writetime(v), writetime(s), writetime(n)"
                        + " FROM %s",
                "SELECT count(*) FROM %s"));
        for (int partition = 0; partition < RandomOperations.PARTITIONS; partition += 3) {
            int from = random.nextInt(RandomOperations.ROWS);
            queries.add("SELECT * FROM %s WHERE p = " + partition + " AND c >= " + from
                    + " ORDER BY c DESC");
            queries.add("SELECT * FROM %s WHERE p = " + partition + " AND c = " + from);
        }
        return queries;
    }
}
