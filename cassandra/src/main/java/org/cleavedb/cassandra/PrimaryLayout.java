package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import java.util.function.IntSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.db.compaction.LeveledCompactionStrategy;
import org.apache.cassandra.db.compaction.UnifiedCompactionStrategy;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.schema.CompactionParams;

/**
 * The layouts of primary copies that the option {@code primary} offers. Each is a stock strategy
 * that is notified of the primary SSTables only, and treats them as it treats a whole table.
 */
enum PrimaryLayout {
    LEVELED("leveled") {
        @Override
        AbstractCompactionStrategy create(ColumnFamilyStore table, Map<String, String> options,
                IntSupplier flushesToBuffer) {
            return new BufferedLeveledStrategy(table, options, flushesToBuffer);
        }

        @Override
        Map<String, String> validate(Map<String, String> options) {
            return LeveledCompactionStrategy.validateOptions(options);
        }
    },

    UNIFIED("unified") {
        @Override
        AbstractCompactionStrategy create(ColumnFamilyStore table, Map<String, String> options,
                IntSupplier flushesToBuffer) {
            return new UnifiedCompactionStrategy(table, withoutThresholds(options));
        }

        @Override
        Map<String, String> validate(Map<String, String> options) {
            return UnifiedCompactionStrategy.validateOptions(withoutThresholds(options));
        }
    };

    private final String name;

    PrimaryLayout(String name) {
        this.name = name;
    }

    /**
     * Creates the strategy for one part of a table.
     *
     * @param flushesToBuffer the number of flushes that bring this part as many bytes as one flush
     *     brings to the whole table
     */
    abstract AbstractCompactionStrategy create(
            ColumnFamilyStore table, Map<String, String> options, IntSupplier flushesToBuffer);

    /** Refuses options that the stock strategy refuses; returns those that it does not know. */
    abstract Map<String, String> validate(Map<String, String> options);

    static PrimaryLayout named(String wanted) {
        for (PrimaryLayout layout : values()) {
            if (layout.name.equalsIgnoreCase(wanted)) {
                return layout;
            }
        }
        throw new ConfigurationException("'" + DecouplingOptions.PRIMARY + "' is the layout of "
                + "primary copies and must be 'leveled' or 'unified', not '" + wanted + "'");
    }

    /**
     * Removes the two compaction thresholds, which the Unified strategy refuses. Cassandra adds
     * them to the options of every strategy that accepts them without any other option, as this one
     * does with its default layout.
     */
    private static Map<String, String> withoutThresholds(Map<String, String> options) {
        Map<String, String> rest = new HashMap<>(options);
        rest.remove(CompactionParams.Option.MIN_THRESHOLD.toString());
        rest.remove(CompactionParams.Option.MAX_THRESHOLD.toString());
        return rest;
    }
}
