package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.locator.Replica;
import org.junit.jupiter.api.Test;

class PrimaryFirstSnitchTest {
    /** Nodes 1, 3, 5 in one data centre, 2, 4, 6 in the other. */
    private static final Function<InetAddressAndPort, String> DATACENTER =
            node -> node.getAddress().getAddress()[3] % 2 == 1 ? "odd" : "even";

    @Test
    void theOwnDatacenterIsFirstAndEachKeepsTheOrderOfTheRing() throws UnknownHostException {
        assertEquals(List.of(5, 1, 3, 4, 2), sorted("odd", 4, 5, 2, 1, 3));
        assertEquals(List.of(4, 2, 5, 1, 3), sorted("even", 4, 5, 2, 1, 3));
        assertEquals(List.of(3, 5, 1), sorted("odd", 3, 5, 1));
        assertEquals(List.of(6, 2), sorted("odd", 6, 2));
        assertEquals(List.of(), sorted("odd"));
    }

    private static List<Integer> sorted(String own, int... nodes) throws UnknownHostException {
        List<Replica> replicas = new ArrayList<>();
        for (int node : nodes) {
            replicas.add(Replica.fullReplica(
                    InetAddressAndPort.getByAddressOverrideDefaults(
                            InetAddress.getByName("10.0.0." + node), 7000),
                    new LongToken(0), new LongToken(1)));
        }
        replicas.sort(PrimaryFirstSnitch.ownDatacenterFirst(own, DATACENTER));
        return replicas.stream()
                .map(replica -> (int) replica.endpoint().getAddress().getAddress()[3])
                .collect(Collectors.toList());
    }
}
