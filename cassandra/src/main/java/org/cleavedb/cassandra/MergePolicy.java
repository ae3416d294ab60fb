package org.cleavedb.cassandra;

import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * The merge policy of a group: it chooses the runs to merge once there are more than {@code
 * ordering}. A policy that merges all of them would rewrite the whole group after every {@code
 * ordering} splits, and each byte would be written the more often the larger the table is. This
 * policy merges small runs, and leaves a large one alone until the others have grown to its size.
 * Each byte is then written about as often as the {@code ordering}-th root of the number of splits.
 * A run can also be merged while a split writes it, which saves one write of that run; in a
 * simulation with an ordering of 4 that is a tenth of all bytes.
 *
 * <p>Every choice is correct for reads: Cassandra keeps a tombstone as long as an SSTable outside
 * of the compaction may hold data that it hides.
 */
final class MergePolicy {
    /**
     * The largest run is merged only if its size is at most this multiple of the others' sum. A
     * higher ratio writes more bytes; a lower one leaves more old versions on the disk. In a
     * simulation with YCSB's skew, a ratio of 2 writes at most a quarter more than the least
     * possible, and takes at most half more space than a single run.
     */
    private static final double MAX_SIZE_RATIO = 2;

    private MergePolicy() {
    }

    /**
     * Chooses the runs to merge with a run that is about to be written, so that the ordering is not
     * exceeded. Returns nothing if the new run should stay alone.
     *
     * @param one the estimated size of the new run
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

    /** Chooses the runs whose merge leaves {@code ordering} of these {@code runs}. */
    static <F> List<F> of(List<F> runs, int ordering, ToLongFunction<F> size) {
        assert runs.size() > ordering : runs.size() + " runs do not exceed " + ordering;
        List<F> bySize = runs.stream()
                .sorted(Comparator.comparingLong(size).reversed()).collect(Collectors.toList());
        // A merge of n runs leaves n - 1 fewer.
        int fewest = runs.size() - ordering + 1;
        long all = bySize.stream().mapToLong(size).sum();
        for (int first = 0; first < runs.size() - fewest; first++) {
            long largest = size.applyAsLong(bySize.get(first));
            all -= largest;
            if (largest <= MAX_SIZE_RATIO * all) {
                return bySize.subList(first, bySize.size());
            }
        }
        return bySize.subList(runs.size() - fewest, bySize.size());
    }
}
