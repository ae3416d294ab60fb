package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.MBeanWrapper;

/**
 * Numbers of one table, over all strategies that Cassandra makes for it. Counters outlive an ALTER;
 * the managed object is there as long as some strategy of ours is in use.
 */
final class TableMetrics {
    private static final Map<String, TableMetrics> ALL = new ConcurrentHashMap<>();

    final LongAdder primaryFlushed = new LongAdder();
    final LongAdder redundantFlushed = new LongAdder();
    private final LongAdder primaryCompacted = new LongAdder();
    private final LongAdder treesCompacted = new LongAdder();
    private final Map<Role.Kind, LongAdder> filesRead = new EnumMap<>(Role.Kind.class);
    private final LongAdder filesReadOfNoRole = new LongAdder();
    final LongAdder inspected = new LongAdder();
    final Ordering ordering = new Ordering();
    private final Map<Purpose, LongAdder> rewritten = new EnumMap<>(Purpose.class);

    final String keyspace;
    final String table;
    private final String beanName;
    /** Cassandra forgets a finished repair's strategy without saying so: hence weak. */
    private final Set<ReplicaDecouplingStrategy> strategies =
            Collections.newSetFromMap(new WeakHashMap<>());

    private TableMetrics(ColumnFamilyStore table) {
        keyspace = table.getKeyspaceName();
        this.table = table.getTableName();
        beanName = "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace="
                + table.getKeyspaceName() + ",table=" + table.getTableName();
        for (Purpose purpose : Purpose.values()) {
            rewritten.put(purpose, new LongAdder());
        }
        for (Role.Kind kind : Role.Kind.values()) {
            filesRead.put(kind, new LongAdder());
        }
    }

    /** All tables that a strategy of ours works for now. */
    static List<TableMetrics> inUse() {
        return ALL.values().stream().filter(TableMetrics::isInUse).collect(Collectors.toList());
    }

    static TableMetrics of(ColumnFamilyStore table) {
        // The table of an index has the id of the table that it belongs to.
        return ALL.computeIfAbsent(table.metadata().id + " " + table.getTableName(),
                any -> new TableMetrics(table));
    }

    /** @param takenIn bytes of runs that were merged on the way, and count as merged */
    void wrote(Purpose purpose, Collection<SSTableReader> files, long takenIn) {
        long written = bytes(files);
        long merged = Math.min(takenIn, written);
        rewritten.get(Purpose.MERGE).add(merged);
        rewritten.get(purpose).add(written - merged);
    }

    /** By a stock layout: that of primary copies, or one of the trees. */
    void compacted(boolean ofPrimary, Collection<SSTableReader> files) {
        (ofPrimary ? primaryCompacted : treesCompacted).add(bytes(files));
    }

    /** Reads have looked so often into a file of this role; null: it is not known. */
    void lookedInto(Role role, long times) {
        (role == null ? filesReadOfNoRole : filesRead.get(role.kind)).add(times);
    }

    static long bytes(Collection<SSTableReader> files) {
        return files.stream().mapToLong(SSTableReader::onDiskLength).sum();
    }

    private synchronized boolean isInUse() {
        return !strategies.isEmpty();
    }

    synchronized void begin(ReplicaDecouplingStrategy strategy) {
        strategies.add(strategy);
        if (!MBeanWrapper.instance.isRegistered(beanName)) {
            MBeanWrapper.instance.registerMBean(new TableBean(this), beanName);
        }
    }

    synchronized void end(ReplicaDecouplingStrategy strategy) {
        strategies.remove(strategy);
        if (strategies.isEmpty() && MBeanWrapper.instance.isRegistered(beanName)) {
            MBeanWrapper.instance.unregisterMBean(beanName);
        }
    }

    /** What one strategy holds at a moment. */
    static final class Holding {
        List<SSTableReader> primary = List.of();
        List<SSTableReader> segments = List.of();
        List<SSTableReader> runs = List.of();
        Map<String, Integer> runsByGroup = Map.of();
        List<SSTableReader> unsure = List.of();
        List<SSTableReader> mixed = List.of();
        /** The most bytes that were unsure or mixed since there were none. */
        long mostUnsortedBytes;
    }

    /** Has the strategies credit what was read up to now, too. */
    List<Holding> holdings() {
        List<ReplicaDecouplingStrategy> current;
        synchronized (this) {
            current = new ArrayList<>(strategies);
        }
        // Asked outside of our own lock, since a strategy that is shut down waits for it.
        List<Holding> holdings = new ArrayList<>();
        current.forEach(strategy -> holdings.add(strategy.holding()));
        return holdings;
    }

    long primaryCompacted() {
        return primaryCompacted.sum();
    }

    long treesCompacted() {
        return treesCompacted.sum();
    }

    long rewritten(Purpose purpose) {
        return rewritten.get(purpose).sum();
    }

    /** How often reads have looked into files of this kind; null: of none. */
    long filesRead(Role.Kind kind) {
        return (kind == null ? filesReadOfNoRole : filesRead.get(kind)).sum();
    }
}
