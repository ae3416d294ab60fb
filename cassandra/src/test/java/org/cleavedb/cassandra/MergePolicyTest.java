package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class MergePolicyTest {
    private static final int SPLITS = 100;

    private static List<Long> choice(int ordering, Long... runs) {
        return MergePolicy.of(List.of(runs), ordering, Long::longValue);
    }

    @Test
    void runsOfOneSizeAreMergedTogether() {
        assertEquals(List.of(5L, 5L, 5L), choice(2, 5L, 5L, 5L));
    }

    @Test
    void aLargeRunIsLeftAloneUntilTheOthersHaveItsSize() {
        assertEquals(List.of(10L, 10L, 10L), choice(3, 10L, 100L, 10L, 10L));
        assertEquals(List.of(100L, 30L, 10L, 10L), choice(3, 10L, 100L, 30L, 10L));
    }

    @Test
    void whatIsAboutToComeCountsAsARun() {
        assertEquals(List.of(5L, 5L), MergePolicy.withOneMore(
                List.of(5L, 5L), 5, 2, Long::longValue));
        assertEquals(List.of(10L), MergePolicy.withOneMore(
                List.of(1000L, 10L), 10, 2, Long::longValue));
        assertEquals(List.of(), MergePolicy.withOneMore(
                List.of(10L, 10L), 1000, 2, Long::longValue));
    }

    @Test
    void enoughAreMergedWhateverTheirSizes() {
        assertEquals(List.of(10L, 1L), choice(3, 1000L, 100L, 10L, 1L));
        assertEquals(List.of(100L, 10L, 1L), choice(2, 1000L, 100L, 10L, 1L));
        assertEquals(List.of(1000L, 1L), choice(1, 1000L, 1L));
    }

    /** No run shares keys with another one, which is the most expensive case. */
    @Test
    void aByteIsWrittenLessOftenTheMoreRunsAreAllowed() {
        double before = Double.MAX_VALUE;
        for (int ordering : new int[] {1, 2, 4, 8, 16}) {
            double written = writtenPerSplit(ordering);
            assertTrue(written < before, ordering + ": " + written + " < " + before);
            before = written;
        }
        double mergingAll = SPLITS / 2.0 / 4;
        assertTrue(writtenPerSplit(4) < mergingAll / 2, "4: " + writtenPerSplit(4));
    }

    private static double writtenPerSplit(int ordering) {
        List<Long> runs = new ArrayList<>();
        double written = 0;
        for (int split = 0; split < SPLITS; split++) {
            runs.add(1L);
            while (runs.size() > ordering) {
                List<Long> chosen = MergePolicy.of(runs, ordering, Long::longValue);
                long merged = chosen.stream().mapToLong(Long::longValue).sum();
                written += merged;
                new ArrayList<>(chosen).forEach(runs::remove);
                runs.add(merged);
            }
        }
        return written / SPLITS;
    }
}
