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
    private final int groupsPerSource;
    private final long settleNanos;

    private Object seenVersion;
    private Placement inForce = Placement.UNKNOWN;
    private Placement waiting;
    private long waitingSince;

    PlacementWatch(ColumnFamilyStore table, DecouplingOptions options) {
        this.table = table;
        ring = new Ring(table);
        groupsPerSource = options.groups;
        settleNanos = TimeUnit.SECONDS.toNanos(options.settleSeconds);
    }

    /** False where no placement will ever be known. */
    boolean mayHaveRoles() {
        return ring.mayHaveRoles();
    }

    /** What is in force now. Takes no lock of Cassandra's compaction: anybody may ask. */
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
                ? "files are looked through and moved to their new side in the background"
                : "copies have no roles any more";
        LOG.info("{}.{}: the ring or its replication has changed (placement {}, now {}); {}",
                table.getKeyspaceName(), table.getTableName(), inForce.digest(), waiting.digest(),
                consequence);
    }

    private void lookAgain() {
        Placement seen = ring.hasRoles()
                ? Grouping.place(ring.localNode(), table.getPartitioner(), ring.slices(),
                        groupsPerSource)
                : Placement.WITHOUT_ROLES;
        if (seen == Placement.UNKNOWN || seen.digest().equals(inForce.digest())) {
            waiting = null;
        } else if (waiting == null || !waiting.digest().equals(seen.digest())) {
            waiting = seen;
            waitingSince = System.nanoTime();
        }
    }
}
