package org.cleavedb.cassandra;

import org.apache.cassandra.dht.Token;

/**
 * One range of the ring, as one node sees it: from the end of the slice before it (exclusive) to
 * its own end (inclusive).
 */
final class RingSlice {
    final Token end;
    /** Who holds the primary copy; empty if nobody does in this data centre. */
    final String source;
    /** The primary copy is here. */
    final boolean primary;
    /** Some copy belongs here. */
    final boolean owned;

    RingSlice(Token end, String source, boolean primary, boolean owned) {
        this.end = end;
        this.source = source;
        this.primary = primary;
        this.owned = owned;
    }
}
