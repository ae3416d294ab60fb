package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.cleavedb.cassandra.OrderingPolicy.Choice;
import org.cleavedb.cassandra.OrderingPolicy.Load;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class OrderingPolicyTest {
    private static final OrderingPolicy RULE = new OrderingPolicy(1, 16);
    private static final Load WRITES_ONLY = new Load(1000, 0, 0, 0.5, 0.5);
    private static final Load READS_ONLY = new Load(0, 1000, 0, 0.5, 0.5);

    @ParameterizedTest(name = "{0} writes, {1} reads, {2} scans, shares {3} and {4}: {5}")
    @CsvSource({
        // As many reads as writes of redundant copies, however many that are.
        "  1000,  1000,    0, 0.5,  0.5,  4",
        "900000, 900000,   0, 0.6,  0.6,  4",
        // Sixteen times more of one quarters or quadruples it.
        " 16000,  1000,    0, 0.5,  0.5, 16",
        "  1000, 16000,    0, 0.5,  0.5,  1",
        "  4000,  1000,    0, 0.5,  0.5,  8",
        "  1000,  4000,    0, 0.5,  0.5,  2",
        // Reads at ONE do not meet redundant copies: whatever there are, writes decide.
        "  1000, 90000,    0, 0.66, 0,   16",
        // QUORUM of three asks one redundant copy of two, ALL two of three.
        "  1000,  5333,    0, 0.66, 0.5,  2",
        "  1000, 90000,    0, 0.66, 0.66, 1",
        // A scan is as dear as ten reads.
        "  1000,     0,  100, 0.5,  0.5,  4",
        // Only written, only read.
        "  1000,     0,    0, 0.5,  0.5, 16",
        "     0,  1000,    0, 0.5,  0.5,  1",
        // With one copy of each row nothing is redundant, so it does not matter.
        "  1000,  1000,    0, 0,    0,    4"})
    void aLoadAsksForAnOrdering(long writes, long reads, long scans, double shareOfWrites,
            double shareOfReads, int expected) {
        assertEquals(expected,
                RULE.wanted(new Load(writes, reads, scans, shareOfWrites, shareOfReads)));
    }

    @Test
    void moreReadsNeverAskForMoreRuns() {
        Random random = new Random(1);
        for (int round = 0; round < 2000; round++) {
            int least = 1 + random.nextInt(20);
            OrderingPolicy rule = new OrderingPolicy(least, least + random.nextInt(100));
            long writes = random.nextInt(10_000);
            long reads = 1 + random.nextInt(10_000);
            int few = rule.wanted(new Load(writes, reads, 0, 0.5, 0.5));
            int many = rule.wanted(new Load(writes, 2 * reads, 0, 0.5, 0.5));
            assertTrue(many <= few, writes + " writes, " + reads + " reads");
            assertEquals(few, rule.bounded(new Choice(few, 0)).ordering, "within the bounds");
        }
    }

    @Test
    void oneUnusualMinuteChangesNothing() {
        Choice now = new Choice(4, 0);
        Load even = new Load(1000, 1000, 0, 0.5, 0.5);
        for (int round = 0; round < 20; round++) {
            for (int look = 1; look < OrderingPolicy.STEADY_LOADS; look++) {
                now = RULE.next(now, round % 2 == 0 ? WRITES_ONLY : READS_ONLY);
                assertEquals(4, now.ordering);
            }
            now = RULE.next(now, even);
            assertEquals(4, now.ordering);
        }
    }

    @Test
    void aLoadThatSwingsChangesNothing() {
        Choice now = new Choice(4, 0);
        for (int look = 0; look < 100; look++) {
            now = RULE.next(now, look % 2 == 0 ? WRITES_ONLY : READS_ONLY);
            assertEquals(4, now.ordering, "look " + look);
        }
    }

    @Test
    void aSteadyLoadIsReachedStepByStepAndKept() {
        assertPath(WRITES_ONLY, 4, 4, 4, 8, 8, 8, 16, 16, 16, 16, 16);
        assertPath(READS_ONLY, 4, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1);
    }

    private static void assertPath(Load load, int... path) {
        Choice now = new Choice(path[0], 0);
        for (int look = 1; look < path.length; look++) {
            now = RULE.next(now, load);
            assertEquals(path[look], now.ordering, "look " + look);
        }
    }

    @Test
    void aLittleMoreOrLessIsNotEnough() {
        Choice now = new Choice(4, 0);
        for (int look = 0; look < 50; look++) {
            // Asks for 5, and for 3.
            now = RULE.next(now, new Load(1600, 1000, 0, 0.5, 0.5));
            assertEquals(4, now.ordering);
        }
        for (int look = 0; look < 50; look++) {
            now = RULE.next(now, new Load(600, 1000, 0, 0.5, 0.5));
            assertEquals(4, now.ordering);
        }
    }

    @Test
    void anIdleTableKeepsWhatItHas() {
        Choice now = new Choice(7, 2);
        assertSame(now, RULE.next(now, new Load(9, 0, 0, 0.5, 0.5)));
    }

    @Test
    void narrowedBoundsHoldAtOnce() {
        assertEquals(6, new OrderingPolicy(2, 6).bounded(new Choice(9, 2)).ordering);
        assertEquals(2, new OrderingPolicy(2, 6).bounded(new Choice(1, -1)).ordering);
        Choice inside = new Choice(3, 2);
        assertSame(inside, new OrderingPolicy(2, 6).bounded(inside));
    }

    @ParameterizedTest(name = "{0} copies, primary first {1}, {2} reads of 1 copy, {3} of 2, {4} of"
            + " 3: {5}")
    @CsvSource({
        "3, true,  100,   0,   0, 0",
        "3, true,    0, 100,   0, 0.5",
        "3, true,    0,   0, 300, 0.6667",
        "3, true,  100, 100,   0, 0.3333",
        "3, false, 100,   0,   0, 0.6667",
        "3, false,   0, 100,   0, 0.6667",
        "1, true,  100,   0,   0, 0",
        // More copies cannot be asked than there are: reads of 3 of 2 copies are reads of 2.
        "2, true,    0,   0, 100, 0.5",
        // Nothing was read here: any copy is as likely as any other.
        "3, true,    0,   0,   0, 0.6667"})
    void consistencyLevelsTellWhoIsAsked(int copies, boolean primaryFirst, long one, long two,
            long three, double expected) {
        RedundantReadShare asked = new RedundantReadShare(copies, primaryFirst)
                .addReads(one, 1).addReads(two, 2)
                .addReads(three, 3);
        assertEquals(expected, asked.redundantShare(), 0.001);
    }
}
