package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

class TurnsTest {
    private static final Supplier<String> NOTHING = () -> null;
    private final Turns turns = new Turns();

    @Test
    void theSidesTakeTurns() {
        for (int round = 0; round < 2; round++) {
            assertEquals("log", turns.next(true, () -> "log", () -> "tree", () -> "primary"));
            assertEquals("primary", turns.next(true, () -> "log", () -> "tree", () -> "primary"));
        }
    }

    @Test
    void whoHasNothingToDoGivesItsTurnAway() {
        for (int round = 0; round < 2; round++) {
            assertEquals("log", turns.next(true, () -> "log", NOTHING, NOTHING));
            assertEquals("tree", turns.next(true, NOTHING, () -> "tree", NOTHING));
            assertEquals("primary", turns.next(true, NOTHING, NOTHING, () -> "primary"));
            assertNull(turns.next(true, NOTHING, NOTHING, NOTHING));
        }
    }

    /**
     * A compaction into level 1 while files of level 1 were still unsure made these overlap it when
     * they came back, so they were sent to level 0 and compacted again. Layouts now wait.
     */
    @Test
    void layoutsWaitUntilRolesAreKnown() {
        for (int round = 0; round < 2; round++) {
            assertEquals("log", turns.next(false, () -> "log", () -> "tree", () -> "primary"));
            assertNull(turns.next(false, NOTHING, () -> "tree", () -> "primary"));
        }
        assertEquals("log", turns.next(true, () -> "log", () -> "tree", () -> "primary"));
    }
}
