package org.cleavedb.cassandra;

import java.util.Comparator;
import java.util.function.Function;
import org.apache.cassandra.locator.GossipingPropertyFileSnitch;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.locator.Replica;
import org.apache.cassandra.locator.ReplicaCollection;

/**
 * {@code endpoint_snitch} for several data centres: everything as in Cassandra's own
 * GossipingPropertyFileSnitch, {@code cassandra-rackdc.properties} included, but for the order in
 * which replicas are asked. The own data centre comes first, and within each, replicas stay in the
 * order of the ring, so that the primary copy is the first. Its own copy, or one in its rack, is
 * worth less to a coordinator than the copy whose files are in the best order.
 *
 * <p>May be told apart from the stock snitch by nobody but the reading coordinator, so nodes can
 * be switched to it and back one by one.
 */
public final class PrimaryFirstSnitch extends GossipingPropertyFileSnitch {
    /** Told apart by their data centre only; the sort is stable and keeps the ring's order. */
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
