package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class BufferedLeveledStrategyTest {
    private static final long FILE = 100;

    private static boolean isFull(int flushesToBuffer, Long... sizes) {
        return BufferedLeveledStrategy.isFull(List.of(sizes), flushesToBuffer, FILE);
    }

    @Test
    void flushesGatherUntilTheyBringAsMuchAsOneOfTheWholeTable() {
        assertFalse(isFull(3, 80L));
        assertFalse(isFull(3, 160L, 81L));
        assertTrue(isFull(3, 160L, 80L));
        assertTrue(isFull(3, 80L, 80L, 80L));
    }

    @Test
    void lessThanAFileIsNeverEnough() {
        assertFalse(isFull(3));
        assertFalse(isFull(3, 60L, 20L, 20L));
        assertFalse(isFull(1, FILE));
        assertTrue(isFull(1, FILE + 1));
    }

    @Test
    void whatFillsLevelZeroIsEnough() {
        assertTrue(isFull(3, 4 * FILE));
        assertFalse(isFull(3, 4 * FILE - 1));
    }

    /** A flush that level 0 had taken up was buffered a second time, and was in both places. */
    @Test
    void aFileThatIsToldOfTwiceIsInOnePlace() {
        Set<String> buffered = new LinkedHashSet<>();
        Set<String> known = Set.of("flush 1", "level 1");
        List<String> told = List.of("flush 1", "flush 2", "level 1", "level 2", "flush 2");
        assertEquals(List.of("flush 1", "level 1", "level 2"), BufferedLeveledStrategy.buffer(
                told, file -> file.startsWith("flush"), known::contains, buffered));
        assertEquals(Set.of("flush 2"), buffered);
    }
}
