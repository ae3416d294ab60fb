package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.SimpleStatement;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;

/**
 * A cluster of two nodes, the second of which is stopped for good. The first one holds both sides
 * of a table, and no replica repairs a loss. This class keeps the expected content of the table.
 */
final class LoneNode implements AutoCloseable {
    static final int KEYS = 240;
    private static final List<String> NAMES = IntStream.range(0, KEYS)
            .mapToObj(Integer::toString).collect(Collectors.toList());
    private static final int VALUE_BYTES = 2000;
    /** The throughput of slow compactions in MB/s: each lasts long enough to be interrupted. */
    private static final int SLOW = 1;
    private static final long PATIENCE_SECONDS = 5;
    private static final int MAX_ACTIONS = 50;

    private final Cluster cluster;
    private final Random random = new Random(1);
    private final Map<Integer, String> expected = new TreeMap<>();
    private Cluster.Client client;

    LoneNode(String folder) {
        cluster = new Cluster(new ClusterSpec(Path.of("target", folder), 2)
                .tokensPerNode(2).heap("384M")
                .setting("hinted_handoff_enabled: false")
                .setting("disk_failure_policy: ignore"));
    }

    Cluster cluster() {
        return cluster;
    }

    /** @param options the options of the strategy, as in CQL */
    void start(String options) throws IOException {
        cluster.start();
        client = cluster.connect(1);
        client.execute("CREATE KEYSPACE k WITH replication = "
                + "{'class': 'SimpleStrategy', 'replication_factor': 2}");
        client.execute("CREATE TABLE k.t (id int PRIMARY KEY, v text) WITH gc_grace_seconds = 0"
                + " AND compaction = " + ours(options));
        cluster.stop(2);
        cluster.awaitLive(1, 1);
    }

    static String ours(String options) {
        return "{'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy', "
                + "'settle_seconds': '0', " + options + "}";
    }

    void alter(String compaction) {
        client.execute("ALTER TABLE k.t WITH compaction = " + compaction);
    }

    /** Gives every row a new value or deletes it, and flushes the table. */
    void writeAndFlush() throws IOException {
        for (int id = 0; id < KEYS; id++) {
            write(id);
        }
        flush();
    }

    /** Writes a row and flushes it, after which the node asks the strategy for compactions. */
    void writeOneAndFlush() throws IOException {
        write(0);
        flush();
    }

    private void write(int id) {
        if (random.nextInt(5) == 0) {
            execute("DELETE FROM k.t WHERE id = " + id);
            expected.remove(id);
            return;
        }
        byte[] bytes = new byte[VALUE_BYTES];
        random.nextBytes(bytes);
        String value = Base64.getEncoder().encodeToString(bytes);
        execute("INSERT INTO k.t (id, v) VALUES (" + id + ", '" + value + "')");
        expected.put(id, value);
    }

    private void flush() throws IOException {
        try (NodeControl control = cluster.control(1)) {
            control.flush("k", "t");
        }
    }

    void slowDown() throws IOException {
        throughput(SLOW);
    }

    /** Removes the limit of the throughput. */
    void speedUp() throws IOException {
        throughput(0);
    }

    private void throughput(int megabytes) throws IOException {
        try (NodeControl control = cluster.control(1)) {
            control.set("org.apache.cassandra.db:type=StorageService",
                    "CompactionThroughputMbPerSec", megabytes);
        }
    }

    /** Kills the node, which interrupts its compactions, and starts it again. */
    void killAndRestart() throws IOException {
        client.close();
        cluster.kill(1);
        cluster.start(1);
        client = cluster.connect(1);
    }

    /** An action that gives the node work. */
    interface Cause {
        void make() throws IOException;
    }

    /** Repeats an action until the node begins a compaction for this reason. */
    void makeIt(CompactionReason reason, Cause cause) throws IOException {
        long before = said(reason.description);
        for (int made = 0; made < MAX_ACTIONS; made++) {
            cause.make();
            if (saysSoon(reason.description, before)) {
                return;
            }
        }
        throw new AssertionError("node 1 has had " + MAX_ACTIONS + " reasons for " + reason
                + " and has not begun with it");
    }

    /** The number of log lines that contain these words. */
    long said(String words) throws IOException {
        try (Stream<String> lines = Files.lines(cluster.layout(1).log())) {
            return lines.filter(line -> line.contains(words)).count();
        }
    }

    /** Waits a few seconds for one more such log line; false if none came. */
    boolean saysSoon(String words, long before) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (said(words) == before && System.nanoTime() < deadline) {
            try {
                TimeUnit.MILLISECONDS.sleep(20);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException("interrupted while waiting", interrupted);
            }
        }
        return said(words) > before;
    }

    /** True if a compaction was interrupted, as its transaction log still exists. */
    boolean isInTheMiddleOfACompaction() throws IOException {
        for (Path disk : cluster.layout(1).disks()) {
            try (Stream<Path> files = Files.find(disk.resolve("k"), 2, (file, attributes) ->
                    file.getFileName().toString().matches(".*_txn_compaction_.*\\.log"))) {
                if (files.findAny().isPresent()) {
                    return true;
                }
            }
        }
        return false;
    }

    void assertRowsAreThere() {
        Map<Integer, String> found = new TreeMap<>();
        execute("SELECT * FROM k.t").forEach(row -> found.put(row.getInt(0), row.getString(1)));
        List<Integer> wrong = new ArrayList<>();
        for (int id = 0; id < KEYS; id++) {
            String value = expected.get(id);
            if (value == null ? found.containsKey(id) : !value.equals(found.get(id))) {
                wrong.add(id);
            }
        }
        assertEquals(List.of(), wrong, "rows that are lost, old or back from the dead");
        assertTrue(expected.size() < KEYS && expected.size() > 1, "some are there, some are not");
    }

    /** Checks rows and roles, and that interrupted compactions left no tags behind. */
    void assertAllIsWell() throws IOException {
        assertRowsAreThere();
        TableOnNode files = new TableOnNode(cluster.layout(1), "k", "t");
        try (NodeControl control = cluster.control(1)) {
            RoleCheck roles = new RoleCheck(cluster, 1, "k", "t");
            roles.awaitFollowed(control);
            roles.awaitTrue(control, NAMES);
        }
        Await.until("no tag is left behind", () -> files.strayTags().isEmpty());
    }

    private List<com.datastax.driver.core.Row> execute(String cql) {
        return client.session().execute(
                new SimpleStatement(cql).setConsistencyLevel(ConsistencyLevel.ONE)).all();
    }

    @Override
    public void close() throws IOException {
        cluster.close();
    }
}
