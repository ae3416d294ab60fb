package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

class AgendaTest {
    private static final Predicate<String> ALL = file -> true;
    private static final int SPLIT_SEGMENTS = 3;
    private static final int ORDERING = 2;

    private final FileBook<String> book = new FileBook<>(file -> 0);
    private final AtomicLong clock = new AtomicLong(7);
    private final LeftAlone<String> leftAlone = new LeftAlone<>(clock::get);
    private final Agenda<String> agenda =
            new Agenda<>(book, SPLIT_SEGMENTS, file -> 1, leftAlone);

    private void segments(int count) {
        for (int file = 0; file < count; file++) {
            book.put("s" + file, Role.SEGMENT);
        }
    }

    private void runs(int count) {
        for (int file = 0; file < count; file++) {
            book.put("r" + file, new Role(Role.Kind.RUN, "a#0"));
        }
    }

    private Purpose next() {
        Agenda.Item<String> item = agenda.next(ORDERING, ALL);
        return item == null ? null : item.purpose;
    }

    @Test
    void withoutMixedFilesTheLogIsMergedAndThenSplit() {
        assertEquals(null, next());
        segments(SPLIT_SEGMENTS);
        runs(ORDERING + 1);
        assertEquals(Purpose.MERGE, next());
        assertEquals(Purpose.MERGE, next());
        book.remove("r0");
        assertEquals(Purpose.SPLIT, next());
    }

    /**
     * Mixed files came before splits and merges as long as there was any: after an ALTER of a large
     * table that is for hours, in which flushes piled up. Now neither side waits for the other.
     */
    @Test
    void mixedFilesAndTheLogTakeTurns() {
        book.putMixed("m");
        assertEquals(Purpose.SEPARATE, next());
        assertEquals(Purpose.SEPARATE, next());
        segments(SPLIT_SEGMENTS);
        assertEquals(Purpose.SPLIT, next());
        assertEquals(Purpose.SEPARATE, next());
        runs(ORDERING + 1);
        assertEquals(Purpose.MERGE, next());
        assertEquals(Purpose.SEPARATE, next());
        assertEquals(Purpose.MERGE, next());
    }

    @Test
    void segmentsThatPileUpAreSplitBeforeAnythingElse() {
        book.putMixed("m");
        runs(ORDERING + 1);
        segments(2 * SPLIT_SEGMENTS);
        for (int time = 0; time < 3; time++) {
            Agenda.Item<String> item = agenda.next(ORDERING, ALL);
            assertEquals(Purpose.SPLIT, item.purpose);
            assertEquals(2 * SPLIT_SEGMENTS, item.files.size());
        }
        assertEquals(Purpose.SEPARATE, agenda.next(ORDERING, file -> !file.equals("s0")).purpose);
    }

    /**
     * A mixed file for which the disk has no room was tried again at every look for work, before
     * anything else. Now it is left alone for a while, and others get their turn.
     */
    @Test
    void whatCouldNotBeTakenApartIsLeftAloneForAWhile() {
        book.putMixed("large");
        book.putMixed("small");
        assertEquals(List.of("large", "small"), agenda.next(ORDERING, ALL).files);
        leftAlone.add(List.of("large"));
        assertEquals(List.of("small"), agenda.next(ORDERING, ALL).files);
        book.remove("small");
        assertEquals(null, next());
        clock.addAndGet(LeftAlone.NANOS - 1);
        assertEquals(null, next());
        clock.incrementAndGet();
        assertEquals(List.of("large"), agenda.next(ORDERING, ALL).files);
    }

    @Test
    void atMostSoManyMixedFilesAreTakenApartTogether() {
        for (int file = 0; file <= Agenda.MIXED_AT_ONCE; file++) {
            book.putMixed("m" + file);
        }
        assertEquals(Agenda.MIXED_AT_ONCE, agenda.next(ORDERING, ALL).files.size());
    }
}
