package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SystemKeyspace;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.locator.AbstractReplicationStrategy;
import org.apache.cassandra.locator.EndpointsForRange;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.locator.LocalStrategy;
import org.apache.cassandra.locator.NetworkTopologyStrategy;
import org.apache.cassandra.locator.Replica;
import org.apache.cassandra.locator.TokenMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;

/**
 * All that we ask Cassandra about who owns what. The next major version answers through other
 * classes, so nothing else may name these.
 *
 * <p>It never opens the keyspace: while a node starts, a strategy is built by the very thread that
 * is opening it, and would wait for itself.
 */
final class Ring {
    private final ColumnFamilyStore table;

    Ring(ColumnFamilyStore table) {
        this.table = table;
    }

    /**
     * False where copies never have roles: the node's own keyspaces; index tables, whose tokens are
     * not those of the ring.
     */
    boolean mayHaveRoles() {
        return !table.isIndex() && !(replication() instanceof LocalStrategy);
    }

    /** False with transient replicas, too: they do not hold what a role would promise. */
    boolean hasRoles() {
        return mayHaveRoles() && !replication().hasTransientReplicas();
    }

    /** Differs whenever the ring or the replication of the keyspace may have changed. */
    Object version() {
        return List.of(tokens().getRingVersion(), System.identityHashCode(replication()),
                joiningTokens());
    }

    String localNode() {
        return local().getHostAddressAndPort();
    }

    /**
     * The whole ring in its order; empty as long as this node is no part of it. At the begin of
     * each start it knows the others' tokens only, and would take all it has for somebody else's.
     * While it joins, it is the ring as it will be then: so what streams in is sorted on arrival.
     */
    List<RingSlice> slices() {
        TokenMetadata tokens = tokens().cachedOnlyTokenMap();
        Collection<Token> joining = joiningTokens();
        if (!joining.isEmpty()) {
            tokens = tokens.cloneOnlyTokenMap();
            tokens.updateNormalTokens(joining, local());
        }
        List<RingSlice> slices = new ArrayList<>();
        if (!tokens.isMember(local())) {
            return slices;
        }
        for (Token end : tokens.sortedTokens()) {
            EndpointsForRange copies = replication().calculateNaturalReplicas(end, tokens);
            Replica primary = primaryOf(copies);
            slices.add(new RingSlice(
                    end,
                    primary == null ? "" : primary.endpoint().getHostAddressAndPort(),
                    primary != null && primary.endpoint().equals(local()),
                    copies.endpoints().contains(local())));
        }
        return slices;
    }

    /** The tokens that this node is about to take, and other nodes may not know of yet. */
    private static Collection<Token> joiningTokens() {
        boolean joins = StorageService.instance.isBootstrapMode() && !tokens().isMember(local());
        return joins ? SystemKeyspace.getSavedTokens() : List.of();
    }

    /**
     * The first replica in the order of the ring, which every node computes alike. With several
     * data centres, each has primaries of its own, as readers stay in theirs.
     */
    private Replica primaryOf(EndpointsForRange copies) {
        boolean perDatacenter = replication() instanceof NetworkTopologyStrategy;
        for (Replica copy : copies) {
            if (!perDatacenter || isInLocalDatacenter(copy)) {
                return copy;
            }
        }
        return null;
    }

    private static boolean isInLocalDatacenter(Replica copy) {
        return DatabaseDescriptor.getEndpointSnitch().getDatacenter(copy.endpoint())
                .equals(DatabaseDescriptor.getLocalDataCenter());
    }

    private AbstractReplicationStrategy replication() {
        return table.keyspace.getReplicationStrategy();
    }

    private static TokenMetadata tokens() {
        return StorageService.instance.getTokenMetadata();
    }

    private static InetAddressAndPort local() {
        return FBUtilities.getBroadcastAddressAndPort();
    }
}
