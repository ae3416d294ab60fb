package org.cleavedb.cassandra;

import java.lang.ref.WeakReference;
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

/**
 * The metrics of one table, over all strategy instances that Cassandra creates for it, and what
 * these share. Counters outlive an ALTER. The JMX bean exists as long as some instance of the
 * strategy is in use.
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
    final OrderingController ordering = new OrderingController();
    private final Map<CompactionReason, LongAdder> rewritten =
            new EnumMap<>(CompactionReason.class);

    final String keyspace;
    final String table;
    private final String beanName;
    /** The references are weak, as Cassandra drops the strategy of a repair without a shutdown. */
    private final Set<ReplicaDecouplingStrategy> strategies =
            Collections.newSetFromMap(new WeakHashMap<>());

    /** The reference is weak, as the watch has one to the table, which may be dropped. */
    private WeakReference<PlacementWatch> watch = new WeakReference<>(null);

    private TableMetrics(ColumnFamilyStore table) {
        keyspace = table.getKeyspaceName();
        this.table = table.getTableName();
        beanName = "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace="
                + table.getKeyspaceName() + ",table=" + table.getTableName();
        for (CompactionReason reason : CompactionReason.values()) {
            rewritten.put(reason, new LongAdder());
        }
        for (Role.Kind kind : Role.Kind.values()) {
            filesRead.put(kind, new LongAdder());
        }
    }

    /** The metrics of all tables that use the strategy at present. */
    static List<TableMetrics> inUse() {
        return ALL.values().stream().filter(TableMetrics::isInUse).collect(Collectors.toList());
    }

    static TableMetrics of(ColumnFamilyStore table) {
        // The table of an index has the same id as the table that it belongs to.
        return ALL.computeIfAbsent(table.metadata().id + " " + table.getTableName(),
                any -> new TableMetrics(table));
    }

    /** The watch that the strategies of this table share as long as one of them is there. */
    synchronized PlacementWatch watch(ColumnFamilyStore store, DecouplingOptions options) {
        PlacementWatch shared = watch.get();
        if (shared == null || !shared.isFor(store, options)) {
            shared = new PlacementWatch(store, options);
            watch = new WeakReference<>(shared);
        }
        return shared;
    }

    /**
     * Counts the output of a compaction of redundant copies.
     *
     * @param mergedRunBytes the bytes of runs that a split merged, which count as merged
     */
    void countWritten(
            CompactionReason reason, Collection<SSTableReader> files, long mergedRunBytes) {
        long written = bytes(files);
        long merged = Math.min(mergedRunBytes, written);
        rewritten.get(CompactionReason.MERGE).add(merged);
        rewritten.get(reason).add(written - merged);
    }

    /** Counts the output of a stock strategy: that of the primary copies, or one of the trees. */
    void compacted(boolean ofPrimary, Collection<SSTableReader> files) {
        (ofPrimary ? primaryCompacted : treesCompacted).add(bytes(files));
    }

    /** Counts reads that looked into an SSTable of this role; null if its role is unknown. */
    void countReads(Role role, long times) {
        (role == null ? filesReadOfNoRole : filesRead.get(role.kind)).add(times);
    }

    static long bytes(Collection<SSTableReader> files) {
        return files.stream().mapToLong(SSTableReader::onDiskLength).sum();
    }

    private synchronized boolean isInUse() {
        return !strategies.isEmpty() && BeanRegistry.isOwner(beanName, this);
    }

    synchronized void register(ReplicaDecouplingStrategy strategy) {
        strategies.add(strategy);
        BeanRegistry.register(beanName, this, new ReplicaDecouplingBean(this));
    }

    synchronized void unregister(ReplicaDecouplingStrategy strategy) {
        strategies.remove(strategy);
        if (strategies.isEmpty()) {
            BeanRegistry.unregister(beanName, this);
        }
    }

    /** The SSTables of one strategy instance at a moment. */
    static final class Contents {
        List<SSTableReader> primary = List.of();
        List<SSTableReader> segments = List.of();
        List<SSTableReader> runs = List.of();
        Map<String, Integer> runsByGroup = Map.of();
        List<SSTableReader> unclassified = List.of();
        List<SSTableReader> mixed = List.of();
        /** The most bytes that were unclassified or mixed since there were none. */
        long peakPendingBytes;
    }

    /** The contents of all instances, which also credit their reads to the counters. */
    List<Contents> contents() {
        List<ReplicaDecouplingStrategy> current;
        synchronized (this) {
            current = new ArrayList<>(strategies);
        }
        // This happens outside of the own monitor: a strategy holds its monitor in shutdown, and
        // then waits for this one.
        List<Contents> contents = new ArrayList<>();
        current.forEach(strategy -> contents.add(strategy.contents()));
        return contents;
    }

    long primaryCompacted() {
        return primaryCompacted.sum();
    }

    long treesCompacted() {
        return treesCompacted.sum();
    }

    long rewritten(CompactionReason reason) {
        return rewritten.get(reason).sum();
    }

    /** The reads that looked into SSTables of this kind; null for those without a role. */
    long filesRead(Role.Kind kind) {
        return (kind == null ? filesReadOfNoRole : filesRead.get(kind)).sum();
    }
}
