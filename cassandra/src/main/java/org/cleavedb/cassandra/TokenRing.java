package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
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
 * An adapter for Cassandra's token metadata and replication. The next major version of Cassandra
 * replaces those classes, so no other class of this module may use them.
 *
 * <p>No method opens the keyspace. While a node starts, the thread that opens the keyspace also
 * creates the strategy, and would wait for itself.
 */
final class TokenRing {
    private final ColumnFamilyStore table;

    TokenRing(ColumnFamilyStore table) {
        this.table = table;
    }

    /**
     * False if copies of this table never have roles: in keyspaces that are not replicated, and in
     * index tables, whose tokens are not those of the ring.
     */
    boolean mayHaveRoles() {
        return !table.isIndex() && !(replication() instanceof LocalStrategy);
    }

    /** False with transient replicas as well, since these do not hold all rows of their ranges. */
    boolean hasRoles() {
        return mayHaveRoles() && !replication().hasTransientReplicas();
    }

    /**
     * A value that changes whenever the ring or the replication of the keyspace may have changed.
     */
    Object version() {
        return List.of(tokens().getRingVersion(), System.identityHashCode(replication()),
                joiningTokens());
    }

    /** The name of this node, see {@link RingRange#source}. */
    String localNode() {
        return nameOf(local());
    }

    /**
     * The ranges of the whole ring in order; empty as long as this node is no member of it. At the
     * beginning of a start, a node knows only the tokens of the others, by which it would own
     * nothing. While the node joins, these are the ranges after the join, so that the SSTables that
     * it receives have the right role from the beginning.
     */
    List<RingRange> ranges() {
        TokenMetadata tokens = tokens().cachedOnlyTokenMap();
        Collection<Token> joining = joiningTokens();
        if (!joining.isEmpty()) {
            tokens = tokens.cloneOnlyTokenMap();
            tokens.updateNormalTokens(joining, local());
        }
        List<RingRange> ranges = new ArrayList<>();
        if (!tokens.isMember(local())) {
            return ranges;
        }
        Map<InetAddressAndPort, String> names = new HashMap<>();
        for (Token end : tokens.sortedTokens()) {
            EndpointsForRange copies = replication().calculateNaturalReplicas(end, tokens);
            Replica primary = primaryOf(copies);
            ranges.add(new RingRange(
                    end,
                    primary == null ? ""
                            : names.computeIfAbsent(primary.endpoint(), TokenRing::nameOf),
                    primary != null && primary.endpoint().equals(local()),
                    copies.endpoints().contains(local())));
        }
        return ranges;
    }

    /**
     * The tokens that this node takes as it joins; other nodes may not know them yet. In write
     * survey mode, a node has received its data and gets writes, but joins only when told to.
     */
    private static Collection<Token> joiningTokens() {
        StorageService node = StorageService.instance;
        boolean joins = (node.isBootstrapMode() || node.isSurveyMode())
                && !tokens().isMember(local());
        return joins ? SystemKeyspace.getSavedTokens() : List.of();
    }

    /** The host id of a node, which it keeps if it comes back with another address. */
    private static String nameOf(InetAddressAndPort node) {
        // While this node starts, the token metadata do not have its own host id yet.
        UUID id = node.equals(local())
                ? SystemKeyspace.getLocalHostId() : tokens().getHostId(node);
        return id == null ? node.getHostAddressAndPort() : id.toString();
    }

    /**
     * The first replica in ring order, which all nodes compute alike; null if this data centre has
     * none. With several data centres, each has primary copies of its own, since coordinators read
     * in their own data centre.
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
