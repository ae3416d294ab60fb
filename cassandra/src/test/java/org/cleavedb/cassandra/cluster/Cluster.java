package org.cleavedb.cassandra.cluster;

import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.Session;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * A cluster of one to five nodes of stock Cassandra on 127.0.0.1 to 127.0.0.5, numbered from 1. Its
 * end closes all clients and stops all nodes that it started. Their files are kept, so that a
 * failure can be analysed.
 */
public final class Cluster implements AutoCloseable {
    private static final long WAIT_LIMIT_MINUTES = 5;
    private static final long POLL_MS = 100;

    private final List<NodeLayout> layouts;
    private final List<NodeProcess> processes = new ArrayList<>();
    private final List<Client> clients = new CopyOnWriteArrayList<>();

    public Cluster(ClusterSpec spec) {
        layouts = IntStream.rangeClosed(1, spec.nodes)
                .mapToObj(number -> new NodeLayout(spec, number))
                .collect(Collectors.toList());
        layouts.forEach(layout -> processes.add(new NodeProcess(layout)));
    }

    /**
     * Starts all nodes, one after the other: a second one joins a ring that is there. Returns once
     * each takes all for alive.
     */
    public Cluster start() throws IOException {
        try {
            for (NodeProcess process : processes) {
                process.start();
                process.awaitReady();
            }
            for (NodeLayout layout : layouts) {
                awaitLive(layout.number, layouts.size());
            }
            return this;
        } catch (IOException | RuntimeException failure) {
            close();
            throw failure;
        }
    }

    public void start(int node) throws IOException {
        processes.get(node - 1).start();
        processes.get(node - 1).awaitReady();
    }

    public void stop(int node) throws IOException {
        processes.get(node - 1).stop();
    }

    /** Kills the process of a node, as a crash does. */
    public void kill(int node) throws IOException {
        processes.get(node - 1).kill();
    }

    public boolean runs(int node) {
        return processes.get(node - 1).runs();
    }

    /** The process id of a node. */
    public long processId(int node) {
        return processes.get(node - 1).processId();
    }

    public NodeLayout layout(int node) {
        return layouts.get(node - 1);
    }

    /** Connects to this node only, which then coordinates all statements. */
    public Client connect(int node) {
        return connect(layout(node));
    }

    /** Connects to all nodes, which then coordinate in turn. */
    public Client connectAll() {
        return connect(layouts.toArray(new NodeLayout[0]));
    }

    private Client connect(NodeLayout... to) {
        Client client = new Client(this, to);
        clients.add(client);
        return client;
    }

    public NodeControl control(int node) throws IOException {
        return new NodeControl(layout(node));
    }

    /** Waits until this node takes exactly so many nodes for alive. */
    public void awaitLive(int node, int count) throws IOException {
        try (NodeControl control = control(node)) {
            awaitThat(() -> control.liveNodes() == count, () -> "node " + node + " takes " + count
                    + " nodes for alive; it takes " + control.liveNodes());
        }
    }

    static void pause() {
        try {
            Thread.sleep(POLL_MS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while waiting for nodes", interrupted);
        }
    }

    /** Stops nodes that an interrupted run has left running, and removes all files. */
    public void reset() throws IOException {
        close();
        wipe();
    }

    /** Removes every file of every node. */
    public void wipe() throws IOException {
        for (NodeLayout layout : layouts) {
            wipe(layout.number);
        }
    }

    /** Removes every file of one node. */
    public void wipe(int node) throws IOException {
        if (runs(node)) {
            throw new IllegalStateException(
                    "node " + node + " runs; stop it before its files are removed");
        }
        removeAll(layout(node).folder);
    }

    @Override
    public void close() throws IOException {
        clients.forEach(Client::close);
        for (NodeProcess process : processes) {
            process.stop();
        }
    }

    private static void removeAll(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path path : files.sorted(Comparator.reverseOrder())
                    .collect(Collectors.toList())) {
                Files.delete(path);
            }
        }
    }

    /** Waits until all nodes that this one takes for alive have the same schema. */
    private void awaitSchema(int node) throws IOException {
        try (NodeControl control = control(node)) {
            awaitThat(control::liveNodesAgree,
                    () -> "the nodes that node " + node + " takes for alive have the same schema");
        }
    }

    private static void awaitThat(BooleanSupplier condition, Supplier<String> what)
            throws IOException {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(WAIT_LIMIT_MINUTES);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new IOException(
                        "not after " + WAIT_LIMIT_MINUTES + " minutes: " + what.get());
            }
            pause();
        }
    }

    /** A connection to one node or more. */
    public static final class Client implements AutoCloseable {
        private static final Pattern CHANGE_OF_SCHEMA = Pattern.compile("(CREATE|ALTER|DROP) ");

        private final Cluster cluster;
        private final NodeLayout[] layouts;
        private final com.datastax.driver.core.Cluster driver;
        private final Session session;

        private Client(Cluster cluster, NodeLayout... layouts) {
            this.cluster = cluster;
            this.layouts = layouts;
            driver = Drivers.to(layouts);
            session = driver.connect();
        }

        public Session session() {
            return session;
        }

        /**
         * Runs a statement. After one that changes the schema, every node that is alive has it:
         * the driver waits ten seconds for those that it knows of, and a node that does not know
         * a table yet fails writes to it.
         */
        public List<com.datastax.driver.core.Row> execute(String cql, Object... values) {
            return run(cql, values).all();
        }

        /** Runs a statement likewise; what nodes warned of with the answer. */
        public List<String> warningsOf(String cql) {
            return run(cql).getExecutionInfo().getWarnings();
        }

        private ResultSet run(String cql, Object... values) {
            ResultSet result = session.execute(cql, values);
            if (CHANGE_OF_SCHEMA.matcher(cql).lookingAt()) {
                awaitSchema();
            }
            return result;
        }

        private void awaitSchema() {
            try {
                for (NodeLayout layout : layouts) {
                    if (cluster.runs(layout.number)) {
                        cluster.awaitSchema(layout.number);
                    }
                }
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        }

        @Override
        public void close() {
            cluster.clients.remove(this);
            driver.close();
        }
    }
}
