package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.ToLongFunction;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.utils.MBeanWrapper;

/**
 * Numbers of one table, over all strategies that Cassandra makes for it. Counters outlive an ALTER;
 * the managed object is there as long as some strategy of ours is in use.
 */
final class TableMetrics implements ReplicaDecouplingMXBean {
    private static final Map<TableId, TableMetrics> ALL = new ConcurrentHashMap<>();

    final LongAdder primaryFlushed = new LongAdder();
    final LongAdder redundantFlushed = new LongAdder();
    final LongAdder primaryCompacted = new LongAdder();
    final LongAdder inspected = new LongAdder();
    private final Map<Purpose, LongAdder> rewritten = new EnumMap<>(Purpose.class);

    private final String beanName;
    /** Cassandra forgets a finished repair's strategy without saying so: hence weak. */
    private final Set<ReplicaDecouplingStrategy> strategies =
            Collections.newSetFromMap(new WeakHashMap<>());

    private TableMetrics(ColumnFamilyStore table) {
        beanName = "org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace="
                + table.getKeyspaceName() + ",table=" + table.getTableName();
        for (Purpose purpose : Purpose.values()) {
            rewritten.put(purpose, new LongAdder());
        }
    }

    static TableMetrics of(ColumnFamilyStore table) {
        return ALL.computeIfAbsent(table.metadata().id, any -> new TableMetrics(table));
    }

    void wrote(Purpose purpose, Collection<SSTableReader> files) {
        rewritten.get(purpose).add(bytes(files));
    }

    static long bytes(Collection<SSTableReader> files) {
        return files.stream().mapToLong(SSTableReader::onDiskLength).sum();
    }

    synchronized void begin(ReplicaDecouplingStrategy strategy) {
        strategies.add(strategy);
        if (!MBeanWrapper.instance.isRegistered(beanName)) {
            MBeanWrapper.instance.registerMBean(this, beanName);
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
        int unsure;
        int mixed;
    }

    private List<Holding> holdings() {
        List<ReplicaDecouplingStrategy> current;
        synchronized (this) {
            current = new ArrayList<>(strategies);
        }
        // Asked outside of our own lock, since a strategy that is shut down waits for it.
        List<Holding> holdings = new ArrayList<>();
        current.forEach(strategy -> holdings.add(strategy.holding()));
        return holdings;
    }

    private long sum(ToLongFunction<Holding> part) {
        return holdings().stream().mapToLong(part).sum();
    }

    @Override
    public int getPrimaryFiles() {
        return (int) sum(holding -> holding.primary.size());
    }

    @Override
    public long getPrimaryBytes() {
        return sum(holding -> bytes(holding.primary));
    }

    @Override
    public int getSegments() {
        return (int) sum(holding -> holding.segments.size());
    }

    @Override
    public long getSegmentBytes() {
        return sum(holding -> bytes(holding.segments));
    }

    @Override
    public int getRuns() {
        return (int) sum(holding -> holding.runs.size());
    }

    @Override
    public long getRunBytes() {
        return sum(holding -> bytes(holding.runs));
    }

    @Override
    public Map<String, Integer> getRunsByGroup() {
        Map<String, Integer> all = new TreeMap<>();
        for (Holding holding : holdings()) {
            holding.runsByGroup.forEach((group, runs) -> all.merge(group, runs, Integer::sum));
        }
        return all;
    }

    @Override
    public int getMostRunsOfAGroup() {
        return holdings().stream().flatMap(holding -> holding.runsByGroup.values().stream())
                .max(Integer::compare).orElse(0);
    }

    @Override
    public int getFilesToInspect() {
        return (int) sum(holding -> holding.unsure);
    }

    @Override
    public int getFilesToTakeApart() {
        return (int) sum(holding -> holding.mixed);
    }

    @Override
    public long getPrimaryBytesFlushed() {
        return primaryFlushed.sum();
    }

    @Override
    public long getRedundantBytesFlushed() {
        return redundantFlushed.sum();
    }

    @Override
    public long getPrimaryBytesCompacted() {
        return primaryCompacted.sum();
    }

    @Override
    public long getBytesSplit() {
        return rewritten(Purpose.SPLIT);
    }

    @Override
    public long getBytesMerged() {
        return rewritten(Purpose.MERGE) + rewritten(Purpose.TOMBSTONES);
    }

    @Override
    public long getBytesTakenApart() {
        return rewritten(Purpose.SEPARATE);
    }

    @Override
    public long getBytesRewritten() {
        return rewritten(Purpose.EVERYTHING) + rewritten(Purpose.CHOSEN)
                + rewritten(Purpose.REWRITE);
    }

    @Override
    public long getFilesInspected() {
        return inspected.sum();
    }

    private long rewritten(Purpose purpose) {
        return rewritten.get(purpose).sum();
    }
}
