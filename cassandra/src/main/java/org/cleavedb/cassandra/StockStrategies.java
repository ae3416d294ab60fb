package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.function.IntSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;

/**
 * The stock strategies that compact parts of one table: one for the primary copies and, with {@code
 * redundant: trees}, one for the redundant copies of each source node. Each of them is notified of
 * its own SSTables only. The segments and runs of the log belong to none of them.
 *
 * <p>This class is not thread-safe; the monitor of {@link ReplicaDecouplingStrategy} guards it.
 */
final class StockStrategies {
    private final ColumnFamilyStore table;
    private final DecouplingOptions options;
    private final IntSupplier flushesToBuffer;
    private final AbstractCompactionStrategy primary;
    private final TreeMap<String, AbstractCompactionStrategy> trees = new TreeMap<>();
    private boolean started;
    /** The source node whose tree has given the last task. */
    private String lastServed = "";

    /** @param flushesToBuffer see {@link PrimaryLayout#create} */
    StockStrategies(ColumnFamilyStore table, DecouplingOptions options,
            IntSupplier flushesToBuffer) {
        this.table = table;
        this.options = options;
        this.flushesToBuffer = flushesToBuffer;
        primary = create();
    }

    AbstractCompactionStrategy primary() {
        return primary;
    }

    /** The strategy for SSTables of this role; null for segments, runs of the log and null. */
    AbstractCompactionStrategy of(Role role) {
        if (role == null) {
            return null;
        }
        if (role.kind == Role.Kind.PRIMARY) {
            return primary;
        }
        return role.kind == Role.Kind.RUN && options.treePerSource
                ? trees.computeIfAbsent(role.group, any -> createTree()) : null;
    }

    /** The one strategy to which all of these SSTables belong, or null if there is none. */
    <F> AbstractCompactionStrategy ofAll(Collection<F> files, Function<F, Role> roles) {
        AbstractCompactionStrategy common = null;
        for (F file : files) {
            AbstractCompactionStrategy strategy = of(roles.apply(file));
            if (strategy == null || common != null && strategy != common) {
                return null;
            }
            common = strategy;
        }
        return common;
    }

    List<AbstractCompactionStrategy> all() {
        List<AbstractCompactionStrategy> all = new ArrayList<>(trees.values());
        all.add(0, primary);
        return all;
    }

    void startup() {
        started = true;
        all().forEach(AbstractCompactionStrategy::startup);
    }

    void shutdown() {
        started = false;
        all().forEach(AbstractCompactionStrategy::shutdown);
    }

    /** The next task of the trees, in round robin, or null if no tree has any. */
    AbstractCompactionTask nextTreeTask(long gcBefore) {
        List<String> turns = new ArrayList<>(trees.tailMap(lastServed, false).keySet());
        turns.addAll(trees.headMap(lastServed, true).keySet());
        for (String name : turns) {
            AbstractCompactionTask task = trees.get(name).getNextBackgroundTask(gcBefore);
            if (task != null) {
                lastServed = name;
                return task;
            }
        }
        return null;
    }

    private AbstractCompactionStrategy create() {
        return options.primary.create(table, options.rest, flushesToBuffer);
    }

    private AbstractCompactionStrategy createTree() {
        AbstractCompactionStrategy tree = create();
        if (started) {
            tree.startup();
        }
        return tree;
    }
}
