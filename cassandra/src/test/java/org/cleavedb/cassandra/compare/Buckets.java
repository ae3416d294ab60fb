package org.cleavedb.cassandra.compare;

/**
 * A histogram of Cassandra as it stood at one moment, all nodes together. Small numbers have a
 * bucket each; above 8, a bucket stands for two numbers and more, and its middle is taken.
 */
final class Buckets {
    private static final double GROWTH = 1.2;

    private final long[] counts;

    Buckets(long[] counts) {
        this.counts = counts;
    }

    Buckets plus(Buckets other) {
        long[] sum = new long[Math.max(counts.length, other.counts.length)];
        for (int bucket = 0; bucket < sum.length; bucket++) {
            sum[bucket] = at(bucket) + other.at(bucket);
        }
        return new Buckets(sum);
    }

    Buckets since(Buckets before) {
        long[] difference = new long[counts.length];
        for (int bucket = 0; bucket < counts.length; bucket++) {
            difference[bucket] = counts[bucket] - before.at(bucket);
        }
        return new Buckets(difference);
    }

    long count() {
        long count = 0;
        for (long inBucket : counts) {
            count += inBucket;
        }
        return count;
    }

    double mean() {
        double sum = 0;
        long last = -1;
        for (int bucket = 0; bucket < counts.length; bucket++) {
            long most = bucket == 0 ? 0 : next(last);
            sum += counts[bucket] * (last + 1 + most) / 2.0;
            last = most;
        }
        long count = count();
        return count == 0 ? 0 : sum / count;
    }

    private long at(int bucket) {
        return bucket < counts.length ? counts[bucket] : 0;
    }

    private static long next(long last) {
        return Math.max(last + 1, last == 0 ? 1 : Math.round(last * GROWTH));
    }
}
