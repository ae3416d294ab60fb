package org.cleavedb.cassandra;

/**
 * How much of what is read here is read from redundant copies, told by how many copies the
 * coordinators ask for: at ONE with the primary first, nothing; at QUORUM of three, one of two.
 */
final class CopiesAsked {
    private final int copies;
    private final boolean primaryFirst;
    private double asked;
    private double askedOfRedundant;

    /**
     * @param copies of each row, as the keyspace is replicated
     * @param primaryFirst whether coordinators ask the first replica first; otherwise any copy is
     *     as likely as any other
     */
    CopiesAsked(int copies, boolean primaryFirst) {
        this.copies = Math.max(1, copies);
        this.primaryFirst = primaryFirst;
    }

    /** So many reads asked for so many copies each. */
    CopiesAsked add(long reads, int copiesEach) {
        int each = Math.max(1, Math.min(copies, copiesEach));
        double ofPrimary = primaryFirst ? 1 : (double) each / copies;
        asked += (double) reads * each;
        askedOfRedundant += reads * (each - ofPrimary);
        return this;
    }

    /** From 0 to 1. If no read was seen, as if every copy were asked alike. */
    double redundantShare() {
        return asked > 0 ? askedOfRedundant / asked : 1 - 1.0 / copies;
    }
}
