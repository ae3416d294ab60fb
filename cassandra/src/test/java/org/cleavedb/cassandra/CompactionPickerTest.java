package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

class CompactionPickerTest {
    private static final Predicate<String> ALL = file -> true;
    private static final int SPLIT_SEGMENTS = 3;
    private static final int ORDERING = 2;

    private final RoleManifest<String> manifest = new RoleManifest<>(file -> 0);
    private final AtomicLong clock = new AtomicLong(7);
    private final FailureBackoff<String> backoff = new FailureBackoff<>(clock::get);
    private final CompactionPicker<String> picker =
            new CompactionPicker<>(manifest, SPLIT_SEGMENTS, file -> 1, backoff);

    private void segments(int count) {
        for (int file = 0; file < count; file++) {
            manifest.put("s" + file, Role.SEGMENT);
        }
    }

    private void runs(int count) {
        for (int file = 0; file < count; file++) {
            manifest.put("r" + file, new Role(Role.Kind.RUN, "a#0"));
        }
    }

    private CompactionReason next() {
        CompactionPicker.Pick<String> item = picker.next(ORDERING, ALL);
        return item == null ? null : item.reason;
    }

    @Test
    void withoutMixedFilesTheLogIsMergedAndThenSplit() {
        assertEquals(null, next());
        segments(SPLIT_SEGMENTS);
        runs(ORDERING + 1);
        assertEquals(CompactionReason.MERGE, next());
        assertEquals(CompactionReason.MERGE, next());
        manifest.remove("r0");
        assertEquals(CompactionReason.SPLIT, next());
    }

    /**
     * Mixed SSTables used to come before splits and merges as long as there were any. After an
     * ALTER of a large table, that takes hours, and flushes piled up meanwhile.
     */
    @Test
    void mixedFilesAndTheLogTakeTurns() {
        manifest.putMixed("m");
        assertEquals(CompactionReason.SEPARATE, next());
        assertEquals(CompactionReason.SEPARATE, next());
        segments(SPLIT_SEGMENTS);
        assertEquals(CompactionReason.SPLIT, next());
        assertEquals(CompactionReason.SEPARATE, next());
        runs(ORDERING + 1);
        assertEquals(CompactionReason.MERGE, next());
        assertEquals(CompactionReason.SEPARATE, next());
        assertEquals(CompactionReason.MERGE, next());
    }

    @Test
    void segmentsThatPileUpAreSplitBeforeAnythingElse() {
        manifest.putMixed("m");
        runs(ORDERING + 1);
        segments(2 * SPLIT_SEGMENTS);
        for (int time = 0; time < 3; time++) {
            CompactionPicker.Pick<String> item = picker.next(ORDERING, ALL);
            assertEquals(CompactionReason.SPLIT, item.reason);
            assertEquals(2 * SPLIT_SEGMENTS, item.files.size());
        }
        assertEquals(CompactionReason.SEPARATE,
                picker.next(ORDERING, file -> !file.equals("s0")).reason);
    }

    /**
     * A mixed SSTable for which the disk had no room used to be tried again whenever Cassandra
     * asked for a task, before all other work.
     */
    @Test
    void whatCouldNotBeTakenApartIsLeftAloneForAWhile() {
        manifest.putMixed("large");
        manifest.putMixed("small");
        assertEquals(List.of("large", "small"), picker.next(ORDERING, ALL).files);
        backoff.recordFailure(List.of("large"));
        assertEquals(List.of("small"), picker.next(ORDERING, ALL).files);
        manifest.remove("small");
        assertEquals(null, next());
        clock.addAndGet(FailureBackoff.DURATION_NANOS - 1);
        assertEquals(null, next());
        clock.incrementAndGet();
        assertEquals(List.of("large"), picker.next(ORDERING, ALL).files);
    }

    @Test
    void atMostSoManyMixedFilesAreTakenApartTogether() {
        for (int file = 0; file <= CompactionPicker.MAX_MIXED; file++) {
            manifest.putMixed("m" + file);
        }
        assertEquals(CompactionPicker.MAX_MIXED, picker.next(ORDERING, ALL).files.size());
    }
}
