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

    final PrimaryLayout primary;
    /** What is left for the primary layout. */
    final Map<String, String> rest;

    private DecouplingOptions(Map<String, String> all) {
        rest = new HashMap<>(all);
        primary = PrimaryLayout.named(taken(PRIMARY, "leveled"));
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
}
