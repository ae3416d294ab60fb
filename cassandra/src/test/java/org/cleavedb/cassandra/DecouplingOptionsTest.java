package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.junit.jupiter.api.Test;

class DecouplingOptionsTest {
    @Test
    void whatIsLeftOutHasADefault() {
        DecouplingOptions options = options();
        assertEquals(4, options.ordering);
        assertFalse(options.orderingIsAuto);
        assertFalse(options.treePerSource);
        assertEquals(12, options.splitSegments);
        assertEquals(16, options.groups);
        assertEquals(60, options.settleSeconds);
    }

    @Test
    void autoHasBounds() {
        DecouplingOptions options = options("ordering", "auto");
        assertTrue(options.orderingIsAuto);
        assertEquals(1, options.orderingMin);
        assertEquals(16, options.orderingMax);
        assertEquals(60, options.orderingSeconds);
        assertEquals(40, options("ordering", "AUTO", "ordering_min", "40").orderingMax);
        assertEquals(2, options("ordering", "auto", "ordering_max", "2").orderingMax);
    }

    @Test
    void whatIsNotOursIsLeftForThePrimaryLayout() {
        assertEquals(Map.of("sstable_size_in_mb", "4"),
                options("ordering", "auto", "ordering_min", "2", "groups", "3",
                        "sstable_size_in_mb", "4").rest);
    }

    @Test
    void contradictionsAreExplained() {
        assertRefused("an integer from 1 to 1000 or 'auto' (the default is 4), not 'many'",
                "ordering", "many");
        assertRefused("'ordering_min' (9) must not be greater than 'ordering_max' (8)",
                "ordering", "auto", "ordering_min", "9", "ordering_max", "8");
        assertRefused("'ordering_min' is allowed only with 'ordering': 'auto'",
                "ordering", "4", "ordering_min", "2");
        assertRefused("'ordering_seconds' is allowed only with", "ordering_seconds", "9");
        assertRefused("'ordering_max' must be an integer", "ordering", "auto", "ordering_max", "0");
        assertRefused("must be 'log' or 'trees', not 'heap'", "redundant", "heap");
        assertRefused("'ordering' is an option of the log of redundant copies",
                "redundant", "trees", "ordering", "4");
        assertRefused("'groups' is an option of the log", "redundant", "trees", "groups", "4");
    }

    private static void assertRefused(String explanation, String... namesAndValues) {
        Exception refusal = assertThrows(
                ConfigurationException.class, () -> options(namesAndValues));
        assertTrue(refusal.getMessage().contains(explanation), refusal.getMessage());
    }

    private static DecouplingOptions options(String... namesAndValues) {
        Map<String, String> all = new HashMap<>();
        for (int at = 0; at < namesAndValues.length; at += 2) {
            all.put(namesAndValues[at], namesAndValues[at + 1]);
        }
        return DecouplingOptions.of(all);
    }
}
