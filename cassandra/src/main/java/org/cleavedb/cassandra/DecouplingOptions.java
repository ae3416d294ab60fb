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
    static final String REDUNDANT = "redundant";
    static final String ORDERING = "ordering";
    static final String ORDERING_MIN = "ordering_min";
    static final String ORDERING_MAX = "ordering_max";
    static final String ORDERING_SECONDS = "ordering_seconds";
    static final String SPLIT_SEGMENTS = "split_segments";
    static final String GROUPS = "groups";
    static final String SETTLE_SECONDS = "settle_seconds";
    private static final String AUTO = "auto";
    private static final int MOST_ORDERING = 1000;

    /** Stock layout of the primary copies; leveled unless said otherwise. */
    final PrimaryLayout primary;
    /**
     * Redundant copies lie in one tree per source node, each laid out like the primary copies, and
     * not in a log. There to be compared with.
     */
    final boolean treePerSource;
    /**
     * Most sorted runs of a group, S in the paper: what a read of a redundant copy may have to look
     * at. 1 makes reads cheapest and writes dearest. 4 unless said otherwise.
     */
    final int ordering;
    /** The ordering follows the load between the two bounds; see {@link OrderingRule}. */
    final boolean orderingIsAuto;
    final int orderingMin;
    final int orderingMax;
    /** How long a load is watched before it is judged; 60 s by default. */
    final int orderingSeconds;
    /**
     * How many segments the global log gathers before they are split into groups. More make each
     * run larger and reads of redundant copies dearer. 12 unless said otherwise.
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
        treePerSource = isTreePerSource(taken(REDUNDANT, "log"));
        if (treePerSource) {
            refuse("is about the log of redundant copies; '" + REDUNDANT + "': 'trees' has none",
                    ORDERING, ORDERING_MIN, ORDERING_MAX, ORDERING_SECONDS, SPLIT_SEGMENTS, GROUPS);
        }
        orderingIsAuto = AUTO.equalsIgnoreCase(rest.getOrDefault(ORDERING, "").trim());
        if (orderingIsAuto) {
            rest.remove(ORDERING);
        } else {
            refuse("goes with '" + ORDERING + "': '" + AUTO + "' only",
                    ORDERING_MIN, ORDERING_MAX, ORDERING_SECONDS);
        }
        ordering = number(ORDERING, OrderingRule.EVEN, 1, MOST_ORDERING, " or '" + AUTO + "'");
        orderingMin = number(ORDERING_MIN, 1, 1, MOST_ORDERING, "");
        orderingMax = number(ORDERING_MAX, Math.max(16, orderingMin), 1, MOST_ORDERING, "");
        if (orderingMin > orderingMax) {
            throw new ConfigurationException("'" + ORDERING_MIN + "' (" + orderingMin + ") is above"
                    + " '" + ORDERING_MAX + "' (" + orderingMax + "); between them `auto` chooses");
        }
        orderingSeconds = number(ORDERING_SECONDS, 60, 1, 86_400, "");
        splitSegments = treePerSource ? 1 : number(SPLIT_SEGMENTS, 12, 1, 1000, "");
        groups = treePerSource ? 1 : number(GROUPS, 16, 1, Grouping.MOST_GROUPS, "");
        settleSeconds = number(SETTLE_SECONDS, 60, 0, 86_400, "");
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

    private static boolean isTreePerSource(String wanted) {
        if (!wanted.equalsIgnoreCase("log") && !wanted.equalsIgnoreCase("trees")) {
            throw new ConfigurationException("'" + REDUNDANT + "' says how redundant copies are "
                    + "laid out; it is 'log' or 'trees', not '" + wanted + "'");
        }
        return wanted.equalsIgnoreCase("trees");
    }

    private void refuse(String because, String... names) {
        for (String name : names) {
            if (rest.containsKey(name)) {
                throw new ConfigurationException("'" + name + "' " + because);
            }
        }
    }

    /** @param orElse what else may be said, for the refusal */
    private int number(String name, int otherwise, int least, int most, String orElse) {
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
                + most + orElse + " (" + otherwise + " if it is left out), not '" + value + "'");
    }
}
