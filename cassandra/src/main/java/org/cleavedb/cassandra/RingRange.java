package org.cleavedb.cassandra;

import org.apache.cassandra.dht.Token;

/**
 * A token range of the ring with its replicas, as this node sees it. It begins after the end of the
 * range before it and includes its own end.
 */
final class RingRange {
    final Token end;
    /**
     * The host id of the node that holds the primary copy; empty if no node of this data centre
     * does.
     */
    final String source;
    /** True if this node holds the primary copy. */
    final boolean primary;
    /** True if this node holds any copy. */
    final boolean owned;

    RingRange(Token end, String source, boolean primary, boolean owned) {
        assert owned || !primary : "the primary copy of a range that this node does not own";
        this.end = end;
        this.source = source;
        this.primary = primary;
        this.owned = owned;
    }
}
