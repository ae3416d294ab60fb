package org.cleavedb.cassandra;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * Which runs of a group that has too many are merged. Merging all of them each time would write the
 * whole group again after every {@code ordering} splits, so that a byte would be written the more
 * often the larger the table is. Merging the small ones leaves large ones alone until what has come
 * since is of their size: a byte is then written about as often as the {@code ordering}-th root of
 * the number of splits. The run that a split brings can be merged as it is written, which saves one
 * writing of it: a tenth of all at S = 4, as simulated.
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

    /**
     * What should be merged with a run that is about to come, so that the ordering is not exceeded.
     * Empty if others should be merged and that one left alone.
     *
     * @param one how large it will be, more or less
     */
    static <F> List<F> withOneMore(
            List<F> runs, long one, int ordering, ToLongFunction<F> size) {
        List<Optional<F>> withIt = runs.stream().map(Optional::of).collect(Collectors.toList());
        withIt.add(Optional.empty());
        List<Optional<F>> chosen = of(
                withIt, ordering, run -> run.isPresent() ? size.applyAsLong(run.get()) : one);
        return chosen.contains(Optional.<F>empty())
                ? chosen.stream().flatMap(Optional::stream).collect(Collectors.toList())
                : List.of();
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
