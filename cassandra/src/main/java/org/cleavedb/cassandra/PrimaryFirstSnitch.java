package org.cleavedb.cassandra;

import java.util.Comparator;
import java.util.function.Function;
import org.apache.cassandra.locator.GossipingPropertyFileSnitch;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.locator.Replica;
import org.apache.cassandra.locator.ReplicaCollection;

/**
 * An {@code endpoint_snitch} for several data centres that sorts the primary copy first. It differs
 * from Cassandra's GossipingPropertyFileSnitch, whose {@code cassandra-rackdc.properties} it reads,
 * only in the order in which a coordinator asks replicas: those of its own data centre first, and
 * within each data centre in ring order, which begins with the primary copy. A copy on the
 * coordinator itself or in its rack is not preferred, since the SSTables of the primary copy are in
 * the best order.
 *
 * <p>Only the coordinator of a read uses this order, so nodes can be switched to this snitch and
 * back one by one.
 */
public final class PrimaryFirstSnitch extends GossipingPropertyFileSnitch {
    /** Compares by data centre only; sorts that use this are stable and keep the ring order. */
    @Override
    public int compareEndpoints(InetAddressAndPort reader, Replica one, Replica other) {
        return order(reader).compare(one, other);
    }

    @Override
    public <C extends ReplicaCollection<? extends C>> C sortedByProximity(
            InetAddressAndPort reader, C replicas) {
        return replicas.sorted(order(reader));
    }

    private Comparator<Replica> order(InetAddressAndPort reader) {
        return ownDatacenterFirst(getDatacenter(reader), this::getDatacenter);
    }

    static Comparator<Replica> ownDatacenterFirst(
            String own, Function<InetAddressAndPort, String> datacenterOf) {
        return Comparator.comparing(
                replica -> !own.equals(datacenterOf.apply(replica.endpoint())));
    }
}
