package org.cleavedb.cassandra;

/**
 * How many runs a group may hold, given what a table is asked to do; {@code ordering: auto} goes
 * by it. Pure: the same loads lead to the same choices.
 *
 * <p>Each S-th split of a group rewrites the whole group, so writing costs about 1/S per row. A
 * read of a redundant copy looks at about S/2 runs. The sum is least at a multiple of the root of
 * writes per read. The multiple is chosen so that as many reads as writes give {@link #EVEN}.
 *
 * <p>Cautious, since a lower ordering is paid at once by merges: it moves only when several loads
 * in a row ask for clearly more, or clearly less, and by {@link #LARGEST_STEP} at most.
 */
final class OrderingRule {
    /** For as many reads of redundant copies as writes of them; also where a table begins. */
    static final int EVEN = 4;
    /** Bloom filters spare a read of one partition most runs, and a scan none. */
    static final int READS_PER_SCAN = 10;
    /** Less is no load to go by. */
    static final long LEAST_OPERATIONS = 100;
    /** Loads in a row that must ask for the same direction. */
    static final int STEADY_LOOKS = 3;
    /** What counts as clearly more or less. */
    static final double CLEARLY = 1.5;
    static final int LARGEST_STEP = 2;

    private final int least;
    private final int most;

    OrderingRule(int least, int most) {
        this.least = least;
        this.most = most;
    }

    /** What this node did for one table in some time. */
    static final class Load {
        final long writes;
        final long reads;
        final long scans;
        /** How much of what is written here is a redundant copy, from 0 to 1. */
        final double redundantShareOfWrites;
        /** How much of what is read here is, from 0 to 1. */
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

        /** In reads of one partition. */
        double redundantReads() {
            return (reads + (double) READS_PER_SCAN * scans) * redundantShareOfReads;
        }

        boolean isEnough() {
            return writes + reads + scans >= LEAST_OPERATIONS;
        }
    }

    /** Where the rule stands after some loads. */
    static final class Choice {
        final int ordering;
        /** How many loads in a row asked for more; negative: for less. */
        final int leaning;

        Choice(int ordering, int leaning) {
            this.ordering = ordering;
            this.leaning = leaning;
        }
    }

    /** The same choice within these bounds. */
    Choice bounded(Choice choice) {
        int ordering = bounded(choice.ordering);
        return ordering == choice.ordering ? choice : new Choice(ordering, 0);
    }

    /** What this load alone would want. */
    int wanted(Load load) {
        double reads = load.redundantReads();
        double writes = load.redundantWrites();
        if (reads <= 0) {
            return writes > 0 ? most : bounded(EVEN);
        }
        return bounded((int) Math.min(most, Math.round(EVEN * Math.sqrt(writes / reads))));
    }

    /** What to do after one more load. */
    Choice next(Choice now, Load load) {
        if (!load.isEnough()) {
            return now;
        }
        int wanted = wanted(load);
        int direction = wanted >= now.ordering * CLEARLY ? 1
                : wanted * CLEARLY <= now.ordering ? -1 : 0;
        boolean sameAsBefore = direction == Integer.signum(now.leaning);
        int leaning = sameAsBefore ? now.leaning + direction : direction;
        if (Math.abs(leaning) < STEADY_LOOKS) {
            return new Choice(now.ordering, leaning);
        }
        int smallest = Math.max(1, now.ordering / LARGEST_STEP);
        int largest = now.ordering * LARGEST_STEP;
        return new Choice(Math.max(smallest, Math.min(largest, wanted)), 0);
    }

    private int bounded(int ordering) {
        return Math.max(least, Math.min(most, ordering));
    }
}
