package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;

/**
 * What the compaction map of a table may say. Names that are not ours go to the layout of the
 * primary copies, so that, say, {@code sstable_size_in_mb} keeps its meaning.
 */
final class DecouplingOptions {
    static final String PRIMARY = "primary";
    static final String ORDERING = "ordering";
    static final String SPLIT_SEGMENTS = "split_segments";
    static final String GROUPS = "groups";
    static final String SETTLE_SECONDS = "settle_seconds";

    /** Stock layout of the primary copies; leveled unless said otherwise. */
    final PrimaryLayout primary;
    /**
     * Most sorted runs of a group, S in the paper: what a read of a redundant copy may have to look
     * at. 1 makes reads cheapest and writes dearest. 4 unless said otherwise.
     */
    final int ordering;
    /**
     * How many segments the global log gathers before they are split into groups. More make each
     * run larger and reads of redundant copies dearer. 8 unless said otherwise.
     */
    final int splitSegments;
    /**
     * Groups per source node. More make each merge smaller and need more files. 16 unless said
     * otherwise.
     */
    final int groups;
    /** How long a changed ring must rest before copies are placed by it; 60 s by default. */
    final int settleSeconds;
    /** What is left for the primary layout. */
    final Map<String, String> rest;

    private DecouplingOptions(Map<String, String> all) {
        rest = new HashMap<>(all);
        primary = PrimaryLayout.named(taken(PRIMARY, "leveled"));
        ordering = number(ORDERING, 4, 1, 1000);
        splitSegments = number(SPLIT_SEGMENTS, 8, 1, 1000);
        groups = number(GROUPS, 16, 1, Grouping.MOST_GROUPS);
        settleSeconds = number(SETTLE_SECONDS, 60, 0, 86_400);
    }

    static DecouplingOptions of(Map<String, String> all) throws ConfigurationException {
        return new DecouplingOptions(all);
    }

    /** Refuses wrong values; returns the options that nobody knows. */
    static Map<String, String> validate(Map<String, String> all) throws ConfigurationException {
        DecouplingOptions options = of(all);
        return options.primary.validate(options.rest);
    }

    private String taken(String name, String otherwise) {
        String value = rest.remove(name);
        return value == null ? otherwise : value;
    }

    private int number(String name, int otherwise, int least, int most) {
        String value = taken(name, Integer.toString(otherwise)).trim();
        try {
            int number = Integer.parseInt(value);
            if (least <= number && number <= most) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // The same refusal as for a number that is out of bounds.
        }
        throw new ConfigurationException("'" + name + "' is a whole number from " + least + " to "
                + most + " (" + otherwise + " if it is left out), not '" + value + "'");
    }
}
