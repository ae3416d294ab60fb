package org.cleavedb.cassandra.cluster;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** `cluster`: real nodes in one command. */
public final class ClusterCommand {
    private static final String USAGE = String.join("\n",
            "cluster start [NODES]          start 1 to 5 nodes (1 if not said) and wait for them",
            "cluster stop                   stop them; their data stays",
            "cluster status                 which nodes run",
            "cluster nodetool NODE ARGS...  Cassandra's nodetool for one node",
            "cluster cql NODE STATEMENT     one statement, its rows line by line",
            "cluster report results=FILE    the tables of `compare` again, of kept results",
            "cluster wipe                   remove all data of stopped nodes",
            "cluster compare [NAME=VALUE…]  YCSB on three nodes, layout by layout; figures",
            "cluster recover [NAME=VALUE…]  a node that lost its data gets it back; figures",
            "",
            "CLUSTER_FOLDER  where the nodes live (target/cluster if not set)",
            "CLUSTER_HEAP    heap of each node (512M if not set)",
            "CLUSTER_TOKENS  tokens per node (1 if not set)",
            "CLUSTER_NETWORK nodes are 127.0.NETWORK.1 to 5 (0 if not set)");

    private ClusterCommand() {
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        List<String> words = List.of(arguments);
        try {
            System.exit(run(words));
        } catch (IllegalArgumentException | IllegalStateException mistake) {
            System.err.println("cluster: " + mistake.getMessage());
            System.exit(2);
        }
    }

    private static int run(List<String> words) throws IOException, InterruptedException {
        switch (words.isEmpty() ? "help" : words.get(0)) {
            case "start":
                return start(words.size() > 1 ? number(words.get(1)) : 1);
            case "stop":
                everyNode().close();
                return 0;
            case "status":
                return status();
            case "nodetool":
                return nodetool(number(word(words, 1)), words.subList(2, words.size()));
            case "cql":
                return cql(number(word(words, 1)), word(words, 2));
            case "wipe":
                everyNode().wipe();
                return 0;
            default:
                System.out.println(USAGE);
                return words.isEmpty() || words.get(0).equals("help") ? 0 : 2;
        }
    }

    private static int start(int nodes) throws IOException {
        Cluster cluster = new Cluster(spec(nodes)).start();
        System.out.println(nodes + " node(s) ready on " + cluster.layout(1).address()
                + (nodes > 1 ? " to " + cluster.layout(nodes).address() : "") + ", port "
                + NodeLayout.CQL_PORT);
        return 0;
    }

    private static int status() {
        Cluster cluster = everyNode();
        for (int node = 1; node <= ClusterSpec.MAX_NODES; node++) {
            System.out.println(cluster.layout(node).address() + "  "
                    + (cluster.runs(node) ? "runs" : "-"));
        }
        return 0;
    }

    private static int nodetool(int node, List<String> arguments)
            throws IOException, InterruptedException {
        NodeLayout layout = everyNode().layout(node);
        ClusterSpec spec = spec(1);
        List<String> command = new ArrayList<>();
        command.add(JavaArguments.java());
        command.addAll(JavaArguments.forTool(layout.folder));
        command.addAll(List.of("-cp", spec.classPath, "org.apache.cassandra.tools.NodeTool",
                "-h", "127.0.0.1", "-p", Integer.toString(layout.jmxPort())));
        command.addAll(arguments);
        return new ProcessBuilder(command).inheritIO().start().waitFor();
    }

    private static int cql(int node, String statement) {
        try (Cluster.Client client = everyNode().connect(node)) {
            client.execute(statement).forEach(System.out::println);
        }
        return 0;
    }

    private static Cluster everyNode() {
        return new Cluster(spec(ClusterSpec.MAX_NODES));
    }

    private static ClusterSpec spec(int nodes) {
        return new ClusterSpec(Path.of(setting("CLUSTER_FOLDER", "target/cluster")), nodes)
                .heap(setting("CLUSTER_HEAP", "512M"))
                .network(number(setting("CLUSTER_NETWORK", "0")))
                .tokensPerNode(number(setting("CLUSTER_TOKENS", "1")));
    }

    private static String setting(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    private static String word(List<String> words, int index) {
        if (index >= words.size()) {
            throw new IllegalArgumentException("something is missing; `cluster help` shows how");
        }
        return words.get(index);
    }

    private static int number(String word) {
        try {
            return Integer.parseInt(word);
        } catch (NumberFormatException notANumber) {
            throw new IllegalArgumentException("`" + word + "` should be a number");
        }
    }
}
