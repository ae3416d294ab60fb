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
 * The stock strategy that lays out the primary copies. It is handed only their files and is
 * otherwise left alone: what it does for a whole table, it does here for the primary part of it.
 */
enum PrimaryLayout {
    LEVELED("leveled") {
        @Override
        AbstractCompactionStrategy create(ColumnFamilyStore table, Map<String, String> options,
                IntSupplier flushesOfAll) {
            return new GatheringLeveled(table, options, flushesOfAll);
        }

        @Override
        Map<String, String> validate(Map<String, String> options) {
            return LeveledCompactionStrategy.validateOptions(options);
        }
    },

    UNIFIED("unified") {
        @Override
        AbstractCompactionStrategy create(ColumnFamilyStore table, Map<String, String> options,
                IntSupplier flushesOfAll) {
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

    /** @param flushesOfAll how many flushes bring it as much as one brings to the whole table */
    abstract AbstractCompactionStrategy create(
            ColumnFamilyStore table, Map<String, String> options, IntSupplier flushesOfAll);

    /** Refuses what the stock strategy refuses; returns what it does not know. */
    abstract Map<String, String> validate(Map<String, String> options);

    static PrimaryLayout named(String wanted) {
        for (PrimaryLayout layout : values()) {
            if (layout.name.equalsIgnoreCase(wanted)) {
                return layout;
            }
        }
        throw new ConfigurationException("'" + DecouplingOptions.PRIMARY + "' says how primary "
                + "copies are laid out; it is 'leveled' or 'unified', not '" + wanted + "'");
    }

    /**
     * Cassandra adds its two thresholds to every strategy that takes them, and asks only once,
     * with nothing else said; so they are there whichever layout was chosen.
     */
    private static Map<String, String> withoutThresholds(Map<String, String> options) {
        Map<String, String> rest = new HashMap<>(options);
        rest.remove(CompactionParams.Option.MIN_THRESHOLD.toString());
        rest.remove(CompactionParams.Option.MAX_THRESHOLD.toString());
        return rest;
    }
}
