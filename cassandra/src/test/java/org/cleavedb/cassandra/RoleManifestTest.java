package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

class RoleManifestTest {
    private static final Predicate<String> ALL = file -> true;
    private final RoleManifest<String> manifest = new RoleManifest<>(file -> file.charAt(0));

    private static Role run(String group) {
        return new Role(Role.Kind.RUN, group);
    }

    @Test
    void aFileIsInOnePlaceOnly() {
        manifest.put("f", Role.SEGMENT);
        manifest.put("f", run("a#0"));
        manifest.putUnclassified("f");
        manifest.putMixed("f");
        assertEquals(List.of("f"), manifest.pickMixed(9, ALL));
        assertNull(manifest.pickForInspection(ALL));
        assertEquals(List.of(), manifest.files(Role.Kind.SEGMENT));
        assertEquals(Map.of(), manifest.runsByGroup());
        manifest.put("f", Role.PRIMARY);
        assertEquals(Set.of("f"), manifest.all());
        manifest.remove("f");
        manifest.remove("f");
        assertEquals(Set.of(), manifest.all());
    }

    @Test
    void aGroupIsMergedWhenItExceedsTheOrdering() {
        for (int file = 0; file < 3; file++) {
            manifest.put("a" + file, run("a#0"));
            manifest.put("b" + file, run("b#0"));
        }
        assertEquals(List.of(), manifest.pickMerge(3, file -> 1, ALL));
        manifest.put("b3", run("b#0"));
        assertEquals(List.of("b0", "b1", "b2", "b3"), manifest.pickMerge(3, file -> 1, ALL));
        assertEquals(List.of("a0", "a1", "a2"),
                manifest.pickMerge(2, file -> 1, f -> !f.equals("b2")));
        assertEquals(2, manifest.pendingTasks(1, 2));
    }

    @Test
    void aSplitTakesInTheRunsOfFullGroups() {
        for (int file = 0; file < 2; file++) {
            manifest.put("a" + file, run("a#0"));
            manifest.put("b" + file, run("b#0"));
            manifest.put("c" + file, run("c#0"));
        }
        manifest.remove("c1");
        assertEquals(List.of("a0", "a1", "b0", "b1"),
                manifest.pickRunsForSplit(2, 4, 4, f -> 1, ALL));
        assertEquals(List.of(), manifest.pickRunsForSplit(3, 4, 4, f -> 1, ALL));
        assertEquals(List.of("b0", "b1"),
                manifest.pickRunsForSplit(2, 4, 4, f -> 1, f -> !f.equals("a1")));
    }

    @Test
    void aSplitLeavesWhatIsTooMuchForItToAMergeAfterwards() {
        for (int file = 0; file < 2; file++) {
            manifest.put("a" + file, run("a#0"));
            manifest.put("b" + file, run("b#0"));
        }
        assertEquals(List.of("b0", "b1"), manifest.pickRunsForSplit(
                1, 60, 1, f -> f.startsWith("a") ? 150 : 100, ALL));
        assertEquals(List.of("b0"), manifest.pickRunsForSplit(
                2, 2, 1, f -> f.equals("b0") ? 1 : 100, ALL));
        // A large split is better left alone.
        assertEquals(List.of(), manifest.pickRunsForSplit(2, 1000, 1, f -> 1, ALL));
    }

    @Test
    void orderingOneKeepsOneRun() {
        manifest.put("a0", run("a#0"));
        assertEquals(List.of(), manifest.pickMerge(1, file -> 1, ALL));
        manifest.put("a1", run("a#0"));
        assertEquals(List.of("a0", "a1"), manifest.pickMerge(1, file -> 1, ALL));
    }

    @Test
    void lanesAreSplitTogetherOnceOneHasEnough() {
        manifest.put("s0", Role.SEGMENT);
        manifest.put("t0", Role.SEGMENT);
        manifest.put("t1", Role.SEGMENT);
        assertEquals(List.of(), manifest.pickSegments(3, 9, ALL));
        manifest.put("s1", Role.SEGMENT);
        manifest.put("s2", Role.SEGMENT);
        assertEquals(List.of("s0", "s1", "s2", "t0", "t1"), manifest.pickSegments(3, 9, ALL));
        assertEquals(List.of("s0", "s1", "t0", "t1"), manifest.pickSegments(3, 2, ALL));
        assertEquals(1, manifest.pendingTasks(3, 1));
        assertEquals(0, manifest.pendingTasks(4, 1));
    }

    @Test
    void segmentsAreSplitOnceThereAreEnough() {
        manifest.put("s0", Role.SEGMENT);
        manifest.put("s1", Role.SEGMENT);
        assertEquals(List.of(), manifest.pickSegments(3, 9, ALL));
        manifest.put("s2", Role.SEGMENT);
        assertEquals(List.of("s0", "s1", "s2"), manifest.pickSegments(3, 9, ALL));
        assertEquals(List.of(), manifest.pickSegments(3, 9, file -> !file.equals("s1")));
        assertEquals(List.of("s0", "s1"), manifest.pickSegments(2, 2, ALL));
    }
}
