package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class GatheringLeveledTest {
    private static final long FILE = 100;

    private static boolean areEnough(int flushesWanted, Long... sizes) {
        return GatheringLeveled.areEnough(List.of(sizes), flushesWanted, FILE);
    }

    @Test
    void flushesGatherUntilTheyBringAsMuchAsOneOfTheWholeTable() {
        assertFalse(areEnough(3, 80L));
        assertFalse(areEnough(3, 160L, 81L));
        assertTrue(areEnough(3, 160L, 80L));
        assertTrue(areEnough(3, 80L, 80L, 80L));
    }

    @Test
    void lessThanAFileIsNeverEnough() {
        assertFalse(areEnough(3));
        assertFalse(areEnough(3, 60L, 20L, 20L));
        assertFalse(areEnough(1, FILE));
        assertTrue(areEnough(1, FILE + 1));
    }

    @Test
    void whatFillsLevelZeroIsEnough() {
        assertTrue(areEnough(3, 4 * FILE));
        assertFalse(areEnough(3, 4 * FILE - 1));
    }

    /** A flush that had been taken up came to wait again, as well as being in level 0. */
    @Test
    void aFileThatIsToldOfTwiceIsInOnePlace() {
        Set<String> waiting = new LinkedHashSet<>();
        Set<String> known = Set.of("flush 1", "level 1");
        List<String> told = List.of("flush 1", "flush 2", "level 1", "level 2", "flush 2");
        assertEquals(List.of("flush 1", "level 1", "level 2"), GatheringLeveled.sorted(
                told, file -> file.startsWith("flush"), known::contains, waiting));
        assertEquals(Set.of("flush 2"), waiting);
    }
}
