package org.cleavedb.cassandra.cluster;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.SocketOptions;
import com.datastax.driver.core.policies.ConstantReconnectionPolicy;
import com.datastax.driver.core.policies.RoundRobinPolicy;
import com.datastax.driver.core.policies.WhiteListPolicy;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** The Java driver, told which nodes to talk to, and to be patient with a busy machine. */
final class Drivers {
    private static final int PATIENCE_MS = 120_000;
    private static final long RECONNECT_MS = 500;

    private Drivers() {
    }

    static Cluster to(NodeLayout... layouts) {
        List<InetSocketAddress> nodes = Arrays.stream(layouts)
                .map(layout -> new InetSocketAddress(layout.address(), NodeLayout.CQL_PORT))
                .collect(Collectors.toList());
        return Cluster.builder()
                .addContactPointsWithPorts(nodes)
                .withLoadBalancingPolicy(
                        new WhiteListPolicy(new RoundRobinPolicy(), nodes))
                .withReconnectionPolicy(new ConstantReconnectionPolicy(RECONNECT_MS))
                .withSocketOptions(new SocketOptions()
                        .setConnectTimeoutMillis(PATIENCE_MS)
                        .setReadTimeoutMillis(PATIENCE_MS))
                .withoutMetrics()
                .withoutJMXReporting()
                .build();
    }
}
