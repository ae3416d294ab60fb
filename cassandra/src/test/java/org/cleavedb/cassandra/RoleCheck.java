package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.cleavedb.cassandra.cluster.NodeControl;

/**
 * A check of the roles on one node: every SSTable with a key must lie on the side, and in a group
 * of the source node, that follow from the first replica of that key.
 */
final class RoleCheck {
    private final int node;
    private final String keyspace;
    private final String table;
    private final TableOnNode files;
    private final Set<String> readers;

    RoleCheck(Cluster cluster, int node, String keyspace, String table) {
        this(cluster, node, keyspace, table, Set.of());
    }

    /** @param nodes the numbers of the nodes in the data centre of this node; empty means all */
    RoleCheck(Cluster cluster, int node, String keyspace, String table, Set<Integer> nodes) {
        readers = nodes.stream().map(RoleCheck::addressOf).collect(Collectors.toSet());
        this.node = node;
        this.keyspace = keyspace;
        this.table = table;
        files = new TableOnNode(cluster.layout(node), keyspace, table);
    }

    /** Waits until every SSTable has a tag, and fails if any tag is wrong. */
    void awaitTrue(NodeControl control, Iterable<String> keys) {
        Await.until("every file of node " + node + " has a role", () -> isTrue(control, keys));
    }

    private boolean isTrue(NodeControl control, Iterable<String> keys) throws IOException {
        Map<?, ?> hostIds = (Map<?, ?>) control.attribute(
                "org.apache.cassandra.db:type=StorageService", "EndpointWithPortToHostId");
        for (String key : keys) {
            String primary = firstReplica(control, key);
            boolean isHere = primary.equals(address());
            for (Path file : files.filesOf(control, key)) {
                Optional<RoleTag> tag = files.tag(file);
                if (tag.isEmpty()) {
                    return false;
                }
                Role role = tag.get().role;
                String what = file + " with key " + key + " of " + primary + " is " + role;
                assertEquals(isHere, role.kind == Role.Kind.PRIMARY, what);
                assertFalse(role.kind == Role.Kind.RUN
                        && !role.group.startsWith(hostIds.get(primary) + "#")
                        && !role.group.equals("elsewhere"), what);
            }
        }
        return true;
    }

    /** Waits until all tags are of the current ring and no SSTable waits for a move. */
    void awaitFollowed(NodeControl control) {
        String bean = "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=" + keyspace
                + ",table=" + table;
        Await.until("node " + node + " has followed the ring", () ->
                (int) control.attribute(bean, "FilesToInspect") == 0
                && (int) control.attribute(bean, "MixedFiles") == 0
                && files.allTagged()
                && files.tags().values().stream().flatMap(Optional::stream)
                        .map(tag -> tag.placement).distinct().count() <= 1);
    }

    boolean isPrimary(NodeControl control, String key) {
        return firstReplica(control, key).equals(address());
    }

    private String address() {
        return addressOf(node);
    }

    private static String addressOf(int node) {
        return ClusterSpec.addressOf(node) + ":7000";
    }

    private String firstReplica(NodeControl control, String key) {
        List<?> replicas = (List<?>) control.invoke(
                "org.apache.cassandra.db:type=StorageService", "getNaturalEndpointsWithPort",
                new Object[] {keyspace, table, key},
                new String[] {"java.lang.String", "java.lang.String", "java.lang.String"});
        return replicas.stream().map(Object::toString)
                .filter(replica -> readers.isEmpty() || readers.contains(replica))
                .findFirst().orElseThrow();
    }
}
