package org.cleavedb.cassandra.cluster;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/**
 * The folder, address and configuration of one node of a local cluster: its {@code cassandra.yaml},
 * its logging and its Java arguments.
 *
 * <p>Node {@code i} listens on {@code 127.0.NETWORK.i} with the usual ports. Only the JMX port
 * differs, since Java binds it to 127.0.0.1 for all nodes. The ring is cut into equal parts in the
 * order of the nodes, so that a test knows which node has which primary copies.
 */
public final class NodeLayout {
    static final int CQL_PORT = 9042;
    private static final int FIRST_JMX_PORT = 7199;
    /** The timeout of a node, below the driver's, so that the node reports what took so long. */
    private static final String PATIENCE = "100s";

    final int number;
    final Path folder;
    private final ClusterSpec spec;

    NodeLayout(ClusterSpec spec, int number) {
        this.spec = spec;
        this.number = number;
        this.folder = spec.folder.resolve("node" + number);
    }

    public String address() {
        return address(number);
    }

    private String address(int node) {
        return "127.0." + spec.network + '.' + node;
    }

    int jmxPort() {
        return FIRST_JMX_PORT + spec.network * ClusterSpec.MAX_NODES + number - 1;
    }

    /** The data directories, each with one folder per keyspace. */
    public List<Path> disks() {
        List<Path> disks = new ArrayList<>(List.of(folder.resolve("data")));
        if (spec.nodeWithTwoDisks == number) {
            disks.add(folder.resolve("data2"));
        }
        return disks;
    }

    /** The number of commit log segments that are kept for change data capture. */
    public long capturedChanges() throws IOException {
        try (Stream<Path> files = Files.list(folder.resolve("cdc_raw"))) {
            return files.filter(file -> file.toString().endsWith(".log")).count();
        }
    }

    /** The log of the node. */
    public Path log() {
        return folder.resolve("system.log");
    }

    /** The directory of the commit log. */
    public Path commitLog() {
        return folder.resolve("commitlog");
    }

    Path processId() {
        return folder.resolve("pid");
    }

    Path output() {
        return folder.resolve("output");
    }

    private Path yaml() {
        return folder.resolve("cassandra.yaml");
    }

    private Path logging() {
        return folder.resolve("logback.xml");
    }

    private Path arguments() {
        return folder.resolve("java-arguments");
    }

    /** Writes the configuration and keeps existing data. */
    void write() throws IOException {
        Files.createDirectories(folder);
        Files.writeString(yaml(), String.join("\n", settings()) + "\n");
        Files.writeString(logging(), loggingSettings());
        if (!spec.datacenters.isEmpty()) {
            Files.writeString(datacenter(),
                    "dc=" + spec.datacenters.get(number - 1) + "\nrack=rack1\n");
        }
        Files.writeString(arguments(), String.join("\n", javaArguments()) + "\n");
    }

    List<String> command() {
        return List.of(
                JavaArguments.java(), "@" + arguments(), "-cp", spec.classPath,
                "org.apache.cassandra.service.CassandraDaemon");
    }

    private Path datacenter() {
        return folder.resolve("cassandra-rackdc.properties");
    }

    private String snitch() {
        return spec.datacenters.isEmpty()
                ? "SimpleSnitch" : "org.cleavedb.cassandra.PrimaryFirstSnitch";
    }

    private List<String> settings() {
        List<String> lines = new ArrayList<>(List.of(
                "cluster_name: cleavedb",
                "partitioner: org.apache.cassandra.dht.Murmur3Partitioner",
                "num_tokens: " + spec.tokensPerNode,
                "initial_token: '" + spec.tokensOf(number) + "'",
                "listen_address: " + address(),
                "rpc_address: " + address(),
                "storage_port: 7000",
                "native_transport_port: " + CQL_PORT,
                "endpoint_snitch: " + snitch(),
                // Reads at ONE then meet the first replica, which is the primary.
                "dynamic_snitch: false",
                "seed_provider:",
                "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider",
                "    parameters:",
                "      - seeds: '" + address(1) + "'",
                "data_file_directories: " + disks(),
                "commitlog_directory: " + commitLog(),
                "saved_caches_directory: " + folder.resolve("saved_caches"),
                "hints_directory: " + folder.resolve("hints"),
                "cdc_raw_directory: " + folder.resolve("cdc_raw"),
                "commitlog_sync: periodic",
                "commitlog_sync_period: 10000ms",
                "commitlog_segment_size: 8MiB",
                "auto_bootstrap: " + spec.bootstrap,
                "auto_snapshot: false",
                "concurrent_reads: 4",
                "concurrent_writes: 8",
                "concurrent_compactors: 1",
                "compaction_throughput: 0MiB/s",
                "memtable_heap_space: 32MiB",
                "memtable_offheap_space: 32MiB",
                "memtable_allocation_type: heap_buffers",
                "key_cache_size: 8MiB",
                "row_cache_size: 0MiB",
                "counter_cache_size: 0MiB",
                "networking_cache_size: 16MiB",
                "file_cache_enabled: false",
                // On a busy machine, timeouts would make the driver send writes twice.
                // Not `request_timeout`: half of the least of all timeouts is how long a node waits
                // before it connects again to one that was away.
                "read_request_timeout: " + PATIENCE,
                "range_request_timeout: " + PATIENCE,
                "write_request_timeout: " + PATIENCE,
                "counter_write_request_timeout: " + PATIENCE,
                "cas_contention_timeout: " + PATIENCE,
                "truncate_request_timeout: " + PATIENCE,
                // Otherwise 5.0 writes the files of 4.0.
                "storage_compatibility_mode: NONE",
                "materialized_views_enabled: true",
                "authenticator: AllowAllAuthenticator",
                "authorizer: AllowAllAuthorizer"));
        for (String setting : spec.extraSettings) {
            // A setting of the test replaces the one above.
            String key = setting.substring(0, setting.indexOf(':') + 1);
            lines.removeIf(line -> line.startsWith(key));
            lines.add(setting);
        }
        return lines;
    }

    private String loggingSettings() {
        return "<configuration>\n"
                + "  <appender name=\"FILE\" class=\"ch.qos.logback.core.FileAppender\">\n"
                + "    <file>" + log() + "</file>\n"
                + "    <encoder><pattern>%date %-5level [%thread] %logger{0}: %msg%n</pattern>"
                + "</encoder>\n"
                + "  </appender>\n"
                + "  <root level=\"INFO\"><appender-ref ref=\"FILE\"/></root>\n"
                + "</configuration>\n";
    }

    private List<String> javaArguments() {
        List<String> lines = new ArrayList<>(JavaArguments.forNode(spec.classPath, spec.heap));
        lines.add("-Dcassandra.config=" + yaml().toUri());
        lines.add("-Dcassandra.storagedir=" + folder);
        lines.add("-Dcassandra.logdir=" + folder);
        lines.add("-Dlogback.configurationFile=" + logging());
        lines.add("-Dcassandra-rackdc.properties=" + datacenter().toUri());
        lines.add("-Dcassandra.jmx.local.port=" + jmxPort());
        // Nodes on one machine learn of a change of the ring within this time.
        lines.add("-Dcassandra.ring_delay_ms=5000");
        lines.addAll(spec.extraJavaArguments);
        return lines;
    }
}
