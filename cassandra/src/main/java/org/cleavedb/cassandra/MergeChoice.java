package org.cleavedb.cassandra;

import java.util.Comparator;
import java.util.List;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * Which runs of a group that has too many are merged. Merging all of them each time would write the
 * whole group again after every {@code ordering} splits, so that a byte would be written the more
 * often the larger the table is. Merging the small ones leaves large ones alone until what has come
 * since is of their size: a byte is then written about as often as the {@code ordering}-th root of
 * the number of splits.
 *
 * <p>Any choice is right for reads: Cassandra keeps tombstones that a run left out may need.
 */
final class MergeChoice {
    /**
     * The largest that is merged is at most so many times as large as the rest together. More
     * writes more often, less leaves more old versions on the disk; simulated with YCSB's skew, 2
     * writes within a quarter of the least, with at most half more space than one run would take.
     */
    private static final double MOST_UNEVEN = 2;

    private MergeChoice() {
    }

    /** @param runs more of them than the ordering; what is chosen brings them down to it */
    static <F> List<F> of(List<F> runs, int ordering, ToLongFunction<F> size) {
        List<F> bySize = runs.stream()
                .sorted(Comparator.comparingLong(size).reversed()).collect(Collectors.toList());
        // One left over for each that is merged away, and one for what they are merged into.
        int fewest = runs.size() - ordering + 1;
        long all = bySize.stream().mapToLong(size).sum();
        for (int first = 0; first < runs.size() - fewest; first++) {
            long largest = size.applyAsLong(bySize.get(first));
            all -= largest;
            if (largest <= MOST_UNEVEN * all) {
                return bySize.subList(first, bySize.size());
            }
        }
        return bySize.subList(runs.size() - fewest, bySize.size());
    }
}
