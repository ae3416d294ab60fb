package org.cleavedb.cassandra;

import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The placement that is in force. A ring that changes is followed only once it has been at rest
 * for a while: while nodes join one after the other, or a start still lacks some, roles that are
 * about to change again would only cost I/O.
 */
final class PlacementWatch {
    private static final Logger LOG = LoggerFactory.getLogger(PlacementWatch.class);

    private final ColumnFamilyStore table;
    private final Ring ring;
    private final boolean hasRoles;
    private final int groupsPerSource;
    private final long settleNanos;

    private Object seenVersion;
    private Placement inForce = Placement.UNKNOWN;
    private Placement waiting;
    private long waitingSince;

    PlacementWatch(ColumnFamilyStore table, DecouplingOptions options) {
        this.table = table;
        ring = new Ring(table);
        hasRoles = ring.hasRoles();
        groupsPerSource = options.groups;
        settleNanos = TimeUnit.SECONDS.toNanos(options.settleSeconds);
    }

    /** False where copies have no roles at all, so that no placement will ever be known. */
    boolean hasRoles() {
        return hasRoles;
    }

    /** What is in force now. Takes no lock of Cassandra's compaction: anybody may ask. */
    synchronized Placement current() {
        if (!hasRoles) {
            return Placement.UNKNOWN;
        }
        Object version = ring.version();
        if (!version.equals(seenVersion)) {
            seenVersion = version;
            lookAgain();
        }
        boolean settled = System.nanoTime() - waitingSince >= settleNanos;
        if (waiting != null && (settled || !inForce.isKnown())) {
            if (inForce.isKnown()) {
                LOG.info("{}.{}: the ring or its replication has changed (placement {}, now {}); "
                        + "files are looked through and moved to their new side in the background",
                        table.getKeyspaceName(), table.getTableName(), inForce.digest(),
                        waiting.digest());
            }
            inForce = waiting;
            waiting = null;
        }
        return inForce;
    }

    private void lookAgain() {
        Placement seen = Grouping.place(
                ring.localNode(), table.getPartitioner(), ring.slices(), groupsPerSource);
        if (!seen.isKnown() || seen.digest().equals(inForce.digest())) {
            waiting = null;
        } else if (waiting == null || !waiting.digest().equals(seen.digest())) {
            waiting = seen;
            waitingSince = System.nanoTime();
        }
    }
}
