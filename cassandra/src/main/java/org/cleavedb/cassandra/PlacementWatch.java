package org.cleavedb.cassandra;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A watch on the ring that holds the placement in force. It adopts a changed ring only after the
 * ring has been stable for {@code settle_seconds}. While nodes join one after the other, or while a
 * starting node does not know all others yet, roles would soon change again, at the cost of I/O.
 *
 * <p>The strategies of a table share one watch. On a node with several data directories, Cassandra
 * creates them anew when the ring changes, and a new watch would adopt the changed ring at once.
 */
final class PlacementWatch {
    private static final Logger LOG = LoggerFactory.getLogger(PlacementWatch.class);

    private final ColumnFamilyStore table;
    private final TokenRing ring;
    private final int groupsPerSource;
    private final long settleNanos;

    private Object seenVersion;
    private Placement inForce = Placement.UNKNOWN;
    private Placement waiting;
    private long waitingSince;

    PlacementWatch(ColumnFamilyStore table, DecouplingOptions options) {
        this.table = table;
        ring = new TokenRing(table);
        groupsPerSource = options.groups;
        settleNanos = TimeUnit.SECONDS.toNanos(options.settleSeconds);
    }

    /** True if a watch of this table with these options would be the same. */
    boolean isFor(ColumnFamilyStore store, DecouplingOptions options) {
        return table == store && groupsPerSource == options.groups
                && settleNanos == TimeUnit.SECONDS.toNanos(options.settleSeconds);
    }

    /** False if this table will never have a placement, see {@link TokenRing#mayHaveRoles}. */
    boolean mayHaveRoles() {
        return ring.mayHaveRoles();
    }

    /** The placement in force. No lock of Cassandra's is taken, so any thread may call this. */
    synchronized Placement current() {
        Object version = ring.version();
        if (!version.equals(seenVersion)) {
            seenVersion = version;
            lookAgain();
        }
        boolean settled = System.nanoTime() - waitingSince >= settleNanos;
        if (waiting != null && (settled || !inForce.isKnown())) {
            tellOfChange();
            inForce = waiting;
            waiting = null;
        }
        return inForce;
    }

    private void tellOfChange() {
        if (inForce == Placement.UNKNOWN) {
            return;
        }
        String consequence = waiting.isKnown()
                ? "the node inspects its SSTables in the background and moves copies whose role "
                        + "has changed"
                : "copies no longer have roles";
        LOG.info("{}.{}: the ring or its replication has changed (placement {}, now {}); {}",
                table.getKeyspaceName(), table.getTableName(), inForce.digest(), waiting.digest(),
                consequence);
    }

    private void lookAgain() {
        Placement seen = ring.hasRoles() ? placementOf(ring.ranges()) : Placement.WITHOUT_ROLES;
        if (seen == Placement.UNKNOWN || seen.digest().equals(inForce.digest())) {
            waiting = null;
        } else if (waiting == null || !waiting.digest().equals(seen.digest())) {
            waiting = seen;
            waitingSince = System.nanoTime();
        }
    }

    private Placement placementOf(List<RingRange> ranges) {
        // Outside of the ring, as in an offline tool, the name of this node may be unknown.
        return ranges.isEmpty() ? Placement.UNKNOWN : PlacementBuilder.build(
                ring.localNode(), table.getPartitioner(), ranges, groupsPerSource);
    }
}
