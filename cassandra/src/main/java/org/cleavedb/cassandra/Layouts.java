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
 * The stock strategies among which files are shared out: one for the primary copies and, where
 * redundant copies lie in trees, one more for each source node. Each is handed only its own files
 * and is otherwise left alone. Files of our log belong to none.
 *
 * <p>Not safe for several threads: the strategy's monitor guards it.
 */
final class Layouts {
    private final ColumnFamilyStore table;
    private final DecouplingOptions chosen;
    private final IntSupplier flushesOfAll;
    private final AbstractCompactionStrategy primary;
    private final TreeMap<String, AbstractCompactionStrategy> trees = new TreeMap<>();
    private boolean started;
    /** The tree whose turn it was last. */
    private String lastServed = "";

    /** @param flushesOfAll how many flushes bring a side as much as one brings to all of them */
    Layouts(ColumnFamilyStore table, DecouplingOptions chosen, IntSupplier flushesOfAll) {
        this.table = table;
        this.chosen = chosen;
        this.flushesOfAll = flushesOfAll;
        primary = create();
    }

    AbstractCompactionStrategy primary() {
        return primary;
    }

    /** Who lays out the files of this role; null if our log does, or for an unknown role. */
    AbstractCompactionStrategy of(Role role) {
        if (role == null) {
            return null;
        }
        if (role.kind == Role.Kind.PRIMARY) {
            return primary;
        }
        return role.kind == Role.Kind.RUN && chosen.treePerSource
                ? trees.computeIfAbsent(role.group, any -> grow()) : null;
    }

    /** The same for several files: null as well if not all belong to one. */
    <F> AbstractCompactionStrategy ofAll(Collection<F> files, Function<F, Role> roles) {
        AbstractCompactionStrategy common = null;
        for (F file : files) {
            AbstractCompactionStrategy layout = of(roles.apply(file));
            if (layout == null || common != null && layout != common) {
                return null;
            }
            common = layout;
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

    /** The next task of any tree, or null; the trees take turns. */
    AbstractCompactionTask nextOfTrees(long gcBefore) {
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
        return chosen.primary.create(table, chosen.rest, flushesOfAll);
    }

    private AbstractCompactionStrategy grow() {
        AbstractCompactionStrategy tree = create();
        if (started) {
            tree.startup();
        }
        return tree;
    }
}
