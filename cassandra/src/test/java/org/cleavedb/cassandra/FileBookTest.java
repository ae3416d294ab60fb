package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

class FileBookTest {
    private static final Predicate<String> ALL = file -> true;
    private final FileBook<String> book = new FileBook<>(file -> file.charAt(0));

    private static Role run(String group) {
        return new Role(Role.Kind.RUN, group);
    }

    @Test
    void aFileIsInOnePlaceOnly() {
        book.put("f", Role.SEGMENT);
        book.put("f", run("a#0"));
        book.putUnsure("f");
        book.putMixed("f");
        assertEquals(List.of("f"), book.toSeparate(9, ALL));
        assertNull(book.toInspect(ALL));
        assertEquals(List.of(), book.files(Role.Kind.SEGMENT));
        assertEquals(Map.of(), book.runsByGroup());
        book.put("f", Role.PRIMARY);
        assertEquals(Set.of("f"), book.all());
        book.remove("f");
        book.remove("f");
        assertEquals(Set.of(), book.all());
    }

    @Test
    void aGroupIsMergedWhenItExceedsTheOrdering() {
        for (int file = 0; file < 3; file++) {
            book.put("a" + file, run("a#0"));
            book.put("b" + file, run("b#0"));
        }
        assertEquals(List.of(), book.toMerge(3, file -> 1, ALL));
        book.put("b3", run("b#0"));
        assertEquals(List.of("b0", "b1", "b2", "b3"), book.toMerge(3, file -> 1, ALL));
        assertEquals(List.of("a0", "a1", "a2"), book.toMerge(2, file -> 1, f -> !f.equals("b2")));
        assertEquals(2, book.waitingTasks(1, 2));
    }

    @Test
    void aSplitTakesInTheRunsOfFullGroups() {
        for (int file = 0; file < 2; file++) {
            book.put("a" + file, run("a#0"));
            book.put("b" + file, run("b#0"));
            book.put("c" + file, run("c#0"));
        }
        book.remove("c1");
        assertEquals(List.of("a0", "a1", "b0", "b1"), book.toMergeBySplit(2, 4, 4, f -> 1, ALL));
        assertEquals(List.of(), book.toMergeBySplit(3, 4, 4, f -> 1, ALL));
        assertEquals(List.of("b0", "b1"),
                book.toMergeBySplit(2, 4, 4, f -> 1, f -> !f.equals("a1")));
    }

    @Test
    void aSplitLeavesWhatIsTooMuchForItToAMergeAfterwards() {
        for (int file = 0; file < 2; file++) {
            book.put("a" + file, run("a#0"));
            book.put("b" + file, run("b#0"));
        }
        assertEquals(List.of("b0", "b1"), book.toMergeBySplit(
                1, 60, 1, f -> f.startsWith("a") ? 150 : 100, ALL));
        assertEquals(List.of("b0"), book.toMergeBySplit(
                2, 2, 1, f -> f.equals("b0") ? 1 : 100, ALL));
        // A large split is better left alone.
        assertEquals(List.of(), book.toMergeBySplit(2, 1000, 1, f -> 1, ALL));
    }

    @Test
    void orderingOneKeepsOneRun() {
        book.put("a0", run("a#0"));
        assertEquals(List.of(), book.toMerge(1, file -> 1, ALL));
        book.put("a1", run("a#0"));
        assertEquals(List.of("a0", "a1"), book.toMerge(1, file -> 1, ALL));
    }

    @Test
    void lanesAreSplitTogetherOnceOneHasEnough() {
        book.put("s0", Role.SEGMENT);
        book.put("t0", Role.SEGMENT);
        book.put("t1", Role.SEGMENT);
        assertEquals(List.of(), book.toSplit(3, 9, ALL));
        book.put("s1", Role.SEGMENT);
        book.put("s2", Role.SEGMENT);
        assertEquals(List.of("s0", "s1", "s2", "t0", "t1"), book.toSplit(3, 9, ALL));
        assertEquals(List.of("s0", "s1", "t0", "t1"), book.toSplit(3, 2, ALL));
        assertEquals(1, book.waitingTasks(3, 1));
        assertEquals(0, book.waitingTasks(4, 1));
    }

    @Test
    void segmentsAreSplitOnceThereAreEnough() {
        book.put("s0", Role.SEGMENT);
        book.put("s1", Role.SEGMENT);
        assertEquals(List.of(), book.toSplit(3, 9, ALL));
        book.put("s2", Role.SEGMENT);
        assertEquals(List.of("s0", "s1", "s2"), book.toSplit(3, 9, ALL));
        assertEquals(List.of(), book.toSplit(3, 9, file -> !file.equals("s1")));
        assertEquals(List.of("s0", "s1"), book.toSplit(2, 2, ALL));
    }
}
