package org.cleavedb.cassandra.cluster;

import java.io.File;
import java.math.BigInteger;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** The specification of a cluster: the number of its nodes, their folder and their settings. */
public final class ClusterSpec {
    /** The most nodes, each of which has a loopback address. */
    static final int MAX_NODES = 5;
    private static final int MAX_NETWORK = 255;
    private static final BigInteger RING = BigInteger.ONE.shiftLeft(64);
    private static final BigInteger FIRST_TOKEN = BigInteger.valueOf(Long.MIN_VALUE);

    final Path folder;
    final int nodes;
    int tokensPerNode = 1;
    String heap = "512M";
    boolean bootstrap;
    int nodeWithTwoDisks;
    List<String> datacenters = List.of();
    int network = networkOfTests();
    String classPath = System.getProperty("java.class.path");
    final List<String> extraSettings = new ArrayList<>();
    final List<String> extraJavaArguments = new ArrayList<>();

    public ClusterSpec(Path folder, int nodes) {
        if (nodes < 1 || nodes > MAX_NODES) {
            throw new IllegalArgumentException(
                    "a local cluster has 1 to " + MAX_NODES + " nodes, not " + nodes);
        }
        this.folder = folder.toAbsolutePath();
        this.nodes = nodes;
    }

    public ClusterSpec heap(String size) {
        heap = size;
        return this;
    }

    /** Virtual nodes; they take turns around the ring. */
    public ClusterSpec tokensPerNode(int count) {
        tokensPerNode = count;
        return this;
    }

    /** Nodes that start into a ring with data take over their part of it. */
    public ClusterSpec bootstrap() {
        bootstrap = true;
        return this;
    }

    /** This node's tables lie in two data directories, as on two disks. */
    public ClusterSpec twoDisks(int node) {
        nodeWithTwoDisks = node;
        return this;
    }

    /**
     * Nodes on 127.0.NUMBER.*, so that two clusters live on one machine; for tests, the property
     * {@code cluster.network} says it, and otherwise it is 0.
     */
    public ClusterSpec network(int number) {
        if (number < 0 || number > MAX_NETWORK) {
            throw new IllegalArgumentException("a local cluster lives on network 0 to "
                    + MAX_NETWORK + " (127.0.NUMBER.*), not " + number);
        }
        network = number;
        return this;
    }

    /** A further argument of each node's Java machine. */
    public ClusterSpec javaArgument(String argument) {
        extraJavaArguments.add(argument);
        return this;
    }

    /** Nodes that lack our classes, as if the jar had been forgotten. */
    public ClusterSpec withoutOurClasses() {
        classPath = Arrays.stream(classPath.split(File.pathSeparator))
                .filter(entry -> !entry.matches(".*(target.classes/?|cleavedb-cassandra[^/]*)"))
                .collect(Collectors.joining(File.pathSeparator));
        return this;
    }

    /**
     * The data centre of each node, in their order. Nodes then have racks and our snitch, and know
     * each other's data centre by gossip.
     */
    public ClusterSpec datacenters(String... names) {
        if (names.length != nodes) {
            throw new IllegalArgumentException(
                    names.length + " data centres are named for " + nodes + " nodes");
        }
        datacenters = List.of(names);
        return this;
    }

    /** A further line of {@code cassandra.yaml}. */
    public ClusterSpec setting(String line) {
        extraSettings.add(line);
        return this;
    }

    private static int networkOfTests() {
        return Integer.getInteger("cluster.network", 0);
    }

    /** The address of a node in the network that the tests use by default. */
    public static String addressOf(int node) {
        return "127.0." + networkOfTests() + '.' + node;
    }

    String tokensOf(int node) {
        int all = nodes * tokensPerNode;
        return IntStream.range(0, tokensPerNode)
                .map(turn -> turn * nodes + node - 1)
                .mapToObj(index -> token(index, all).toString())
                .collect(Collectors.joining(","));
    }

    private static BigInteger token(int index, int all) {
        // One more than the smallest, which Cassandra keeps for itself.
        return RING.multiply(BigInteger.valueOf(index)).divide(BigInteger.valueOf(all))
                .add(FIRST_TOKEN).add(BigInteger.ONE);
    }
}
