package org.cleavedb.cassandra;

/**
 * The policy behind {@code ordering: auto}: it chooses the most runs that a group may keep from the
 * load of the table. It is a pure function; the same loads lead to the same choices.
 *
 * <p>With an ordering of S, each S-th split of a group rewrites the whole group, so a write costs
 * about 1/S per row. A read of a redundant copy looks into about S/2 runs. The sum of both is least
 * where S is a multiple of the square root of writes per read. The multiple is chosen so that equal
 * numbers of reads and writes give {@link #BALANCED}.
 *
 * <p>The policy is cautious, since a lower ordering causes merges at once. It changes the ordering
 * only if several loads in a row ask for a change in the same direction, and by a factor of {@link
 * #MAX_STEP} at most.
 */
final class OrderingPolicy {
    /** The ordering for equal numbers of reads and writes, with which every table begins. */
    static final int BALANCED = 4;
    /** The cost of a scan in reads: Bloom filters spare a read most runs, and a scan none. */
    static final int READS_PER_SCAN = 10;
    /** The fewest operations that count as a load. */
    static final long MIN_OPERATIONS = 100;
    /** The number of loads in a row that must ask for the same direction. */
    static final int STEADY_LOADS = 3;
    /** The least ratio between the wanted ordering and the current one that asks for a change. */
    static final double SIGNIFICANT_RATIO = 1.5;
    /** The largest factor of one change. */
    static final int MAX_STEP = 2;

    private final int least;
    private final int most;

    OrderingPolicy(int least, int most) {
        this.least = least;
        this.most = most;
    }

    /** The load of one table on this node during one interval. */
    static final class Load {
        final long writes;
        final long reads;
        final long scans;
        /** The share of redundant copies in the writes, from 0 to 1. */
        final double redundantShareOfWrites;
        /** The share of redundant copies in the reads, from 0 to 1. */
        final double redundantShareOfReads;

        Load(long writes, long reads, long scans, double redundantShareOfWrites,
                double redundantShareOfReads) {
            this.writes = writes;
            this.reads = reads;
            this.scans = scans;
            this.redundantShareOfWrites = redundantShareOfWrites;
            this.redundantShareOfReads = redundantShareOfReads;
        }

        double redundantWrites() {
            return writes * redundantShareOfWrites;
        }

        /** The reads of redundant copies; a scan counts as {@link #READS_PER_SCAN}. */
        double redundantReads() {
            return (reads + (double) READS_PER_SCAN * scans) * redundantShareOfReads;
        }

        boolean isEnough() {
            return writes + reads + scans >= MIN_OPERATIONS;
        }
    }

    /** The state of the policy after some loads. */
    static final class Choice {
        final int ordering;
        /** The number of loads in a row that asked for more; negative if they asked for less. */
        final int streak;

        Choice(int ordering, int streak) {
            this.ordering = ordering;
            this.streak = streak;
        }
    }

    /** The choice, moved into the bounds of this policy. */
    Choice bounded(Choice choice) {
        int ordering = bounded(choice.ordering);
        return ordering == choice.ordering ? choice : new Choice(ordering, 0);
    }

    /** The ordering that this load alone asks for. */
    int wanted(Load load) {
        double reads = load.redundantReads();
        double writes = load.redundantWrites();
        if (reads <= 0) {
            return writes > 0 ? most : bounded(BALANCED);
        }
        return bounded((int) Math.min(most, Math.round(BALANCED * Math.sqrt(writes / reads))));
    }

    /** The choice after one more load. */
    Choice next(Choice now, Load load) {
        if (!load.isEnough()) {
            return now;
        }
        int wanted = wanted(load);
        int direction = wanted >= now.ordering * SIGNIFICANT_RATIO ? 1
                : wanted * SIGNIFICANT_RATIO <= now.ordering ? -1 : 0;
        boolean sameAsBefore = direction == Integer.signum(now.streak);
        int streak = sameAsBefore ? now.streak + direction : direction;
        if (Math.abs(streak) < STEADY_LOADS) {
            return new Choice(now.ordering, streak);
        }
        int smallest = Math.max(1, now.ordering / MAX_STEP);
        int largest = now.ordering * MAX_STEP;
        return new Choice(Math.max(smallest, Math.min(largest, wanted)), 0);
    }

    private int bounded(int ordering) {
        return Math.max(least, Math.min(most, ordering));
    }
}
