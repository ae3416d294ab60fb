package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

class CompactionSchedulerTest {
    private static final Supplier<String> NOTHING = () -> null;
    private final CompactionScheduler scheduler = new CompactionScheduler();

    @Test
    void theSidesTakeTurns() {
        for (int round = 0; round < 2; round++) {
            assertEquals("log", scheduler.next(true, () -> "log", () -> "tree", () -> "primary"));
            assertEquals("primary",
                    scheduler.next(true, () -> "log", () -> "tree", () -> "primary"));
        }
    }

    @Test
    void whoHasNothingToDoGivesItsTurnAway() {
        for (int round = 0; round < 2; round++) {
            assertEquals("log", scheduler.next(true, () -> "log", NOTHING, NOTHING));
            assertEquals("tree", scheduler.next(true, NOTHING, () -> "tree", NOTHING));
            assertEquals("primary", scheduler.next(true, NOTHING, NOTHING, () -> "primary"));
            assertNull(scheduler.next(true, NOTHING, NOTHING, NOTHING));
        }
    }

    /**
     * SSTables of level 1 overlapped the output of a compaction that ran while they were still
     * unclassified. When they came back, they were sent to level 0 and compacted again.
     */
    @Test
    void layoutsWaitUntilRolesAreKnown() {
        for (int round = 0; round < 2; round++) {
            assertEquals("log", scheduler.next(false, () -> "log", () -> "tree", () -> "primary"));
            assertNull(scheduler.next(false, NOTHING, () -> "tree", () -> "primary"));
        }
        assertEquals("log", scheduler.next(true, () -> "log", () -> "tree", () -> "primary"));
    }
}
