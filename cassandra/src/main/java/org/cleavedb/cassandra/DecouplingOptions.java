package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.exceptions.ConfigurationException;

/**
 * The options of the strategy in the compaction map of a table. Unknown names are passed on to the
 * layout of the primary copies, so that {@code sstable_size_in_mb}, for example, keeps its meaning.
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
    private static final int MAX_ORDERING = 1000;

    /** The stock layout of the primary copies; leveled by default. */
    final PrimaryLayout primary;
    /**
     * True if redundant copies lie in one tree per source node, each in the layout of the primary
     * copies, instead of a log. It exists for comparisons.
     */
    final boolean treePerSource;
    /**
     * The most sorted runs of a group, called S in the paper; 4 by default. A read of a redundant
     * copy may look into that many runs. 1 makes reads cheapest and writes most expensive.
     */
    final int ordering;
    /** True if the ordering follows the load between two bounds; see {@link OrderingPolicy}. */
    final boolean orderingIsAuto;
    /** The lower bound of {@code ordering: auto}; 1 by default. */
    final int orderingMin;
    /** The upper bound of {@code ordering: auto}; 16 by default. */
    final int orderingMax;
    /** The interval between two samples of the load, in seconds; 60 by default. */
    final int orderingSeconds;
    /**
     * The number of segments in one shard of the global log that triggers a split; 12 by default.
     * More segments make each run larger, and reads of redundant copies more expensive.
     */
    final int splitSegments;
    /**
     * The groups per source node; 16 by default. More groups mean smaller merges and more files.
     */
    final int groups;
    /** The seconds for which a changed ring must be stable before it is adopted; 60 by default. */
    final int settleSeconds;
    /** The other options, which belong to the layout of the primary copies. */
    final Map<String, String> rest;

    private DecouplingOptions(Map<String, String> all) {
        rest = new HashMap<>(all);
        primary = PrimaryLayout.named(taken(PRIMARY, "leveled"));
        treePerSource = isTreePerSource(taken(REDUNDANT, "log"));
        if (treePerSource) {
            refuse("is an option of the log of redundant copies, which '" + REDUNDANT
                    + "': 'trees' does not have",
                    ORDERING, ORDERING_MIN, ORDERING_MAX, ORDERING_SECONDS, SPLIT_SEGMENTS, GROUPS);
        }
        orderingIsAuto = AUTO.equalsIgnoreCase(rest.getOrDefault(ORDERING, "").trim());
        if (orderingIsAuto) {
            rest.remove(ORDERING);
        } else {
            refuse("is allowed only with '" + ORDERING + "': '" + AUTO + "'",
                    ORDERING_MIN, ORDERING_MAX, ORDERING_SECONDS);
        }
        ordering = number(ORDERING, OrderingPolicy.BALANCED, 1, MAX_ORDERING, " or '" + AUTO + "'");
        orderingMin = number(ORDERING_MIN, 1, 1, MAX_ORDERING, "");
        orderingMax = number(ORDERING_MAX, Math.max(16, orderingMin), 1, MAX_ORDERING, "");
        if (orderingMin > orderingMax) {
            throw new ConfigurationException("'" + ORDERING_MIN + "' (" + orderingMin + ") must not"
                    + " be greater than '" + ORDERING_MAX + "' (" + orderingMax + ")");
        }
        orderingSeconds = number(ORDERING_SECONDS, 60, 1, 86_400, "");
        splitSegments = treePerSource ? 1 : number(SPLIT_SEGMENTS, 12, 1, 1000, "");
        groups = treePerSource ? 1 : number(GROUPS, 16, 1, PlacementBuilder.MAX_GROUPS, "");
        settleSeconds = number(SETTLE_SECONDS, 60, 0, 86_400, "");
    }

    static DecouplingOptions of(Map<String, String> all) throws ConfigurationException {
        return new DecouplingOptions(all);
    }

    /** Refuses invalid values; returns the options that no layout knows either. */
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
            throw new ConfigurationException("'" + REDUNDANT + "' is the layout of redundant "
                    + "copies and must be 'log' or 'trees', not '" + wanted + "'");
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

    /** @param orElse other values that are allowed, for the message */
    private int number(String name, int otherwise, int least, int most, String orElse) {
        String value = taken(name, Integer.toString(otherwise)).trim();
        try {
            int number = Integer.parseInt(value);
            if (least <= number && number <= most) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // The message below also covers values that are no numbers.
        }
        throw new ConfigurationException("'" + name + "' must be an integer from " + least + " to "
                + most + orElse + " (the default is " + otherwise + "), not '" + value + "'");
    }
}
