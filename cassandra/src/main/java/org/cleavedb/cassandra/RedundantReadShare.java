package org.cleavedb.cassandra;

/**
 * An estimate of the share of reads that ask redundant copies. It follows from the number of copies
 * that coordinators read: none of them is redundant at ONE with the primary copy first, and one of
 * two is at QUORUM of three.
 */
final class RedundantReadShare {
    private final int copies;
    private final boolean primaryFirst;
    private double asked;
    private double askedOfRedundant;

    /**
     * @param copies the number of copies of each row
     * @param primaryFirst true if coordinators read the first replica first; otherwise all copies
     *     are equally likely
     */
    RedundantReadShare(int copies, boolean primaryFirst) {
        this.copies = Math.max(1, copies);
        this.primaryFirst = primaryFirst;
    }

    /** Counts reads, each of which asked for {@code copiesEach} copies. */
    RedundantReadShare addReads(long reads, int copiesEach) {
        int each = Math.max(1, Math.min(copies, copiesEach));
        double ofPrimary = primaryFirst ? 1 : (double) each / copies;
        asked += (double) reads * each;
        askedOfRedundant += reads * (each - ofPrimary);
        return this;
    }

    /** The share, from 0 to 1. Without any read, all copies count as equally likely. */
    double redundantShare() {
        return asked > 0 ? askedOfRedundant / asked : 1 - 1.0 / copies;
    }
}
