package org.cleavedb.cassandra;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import org.cleavedb.cassandra.TableMetrics.Holding;

/** One table's numbers as JMX shows them. */
final class TableBean implements ReplicaDecouplingMXBean {
    private final TableMetrics table;

    TableBean(TableMetrics table) {
        this.table = table;
    }

    @Override
    public int getPrimaryFiles() {
        return (int) sum(holding -> holding.primary.size());
    }

    @Override
    public long getPrimaryBytes() {
        return sum(holding -> TableMetrics.bytes(holding.primary));
    }

    @Override
    public int getSegments() {
        return (int) sum(holding -> holding.segments.size());
    }

    @Override
    public long getSegmentBytes() {
        return sum(holding -> TableMetrics.bytes(holding.segments));
    }

    @Override
    public int getRuns() {
        return (int) sum(holding -> holding.runs.size());
    }

    @Override
    public long getRunBytes() {
        return sum(holding -> TableMetrics.bytes(holding.runs));
    }

    @Override
    public Map<String, Integer> getRunsByGroup() {
        Map<String, Integer> all = new TreeMap<>();
        for (Holding holding : table.holdings()) {
            holding.runsByGroup.forEach((group, runs) -> all.merge(group, runs, Integer::sum));
        }
        return all;
    }

    @Override
    public int getMostRunsOfAGroup() {
        return table.holdings().stream().flatMap(holding -> holding.runsByGroup.values().stream())
                .max(Integer::compare).orElse(0);
    }

    @Override
    public int getFilesToInspect() {
        return (int) sum(holding -> holding.unsure.size());
    }

    @Override
    public int getFilesToTakeApart() {
        return (int) sum(holding -> holding.mixed.size());
    }

    @Override
    public long getPrimaryBytesFlushed() {
        return table.primaryFlushed.sum();
    }

    @Override
    public long getRedundantBytesFlushed() {
        return table.redundantFlushed.sum();
    }

    @Override
    public long getPrimaryBytesCompacted() {
        return table.primaryCompacted();
    }

    @Override
    public long getBytesSplit() {
        return table.rewritten(Purpose.SPLIT);
    }

    @Override
    public long getBytesMerged() {
        return table.rewritten(Purpose.MERGE) + table.rewritten(Purpose.TOMBSTONES)
                + table.treesCompacted();
    }

    @Override
    public long getBytesTakenApart() {
        return table.rewritten(Purpose.SEPARATE);
    }

    @Override
    public long getBytesRewritten() {
        return table.rewritten(Purpose.EVERYTHING) + table.rewritten(Purpose.CHOSEN)
                + table.rewritten(Purpose.REWRITE);
    }

    @Override
    public long getFilesInspected() {
        return table.inspected.sum();
    }

    @Override
    public int getOrdering() {
        return table.ordering.current();
    }

    @Override
    public int getOrderingWanted() {
        return table.ordering.wanted();
    }

    @Override
    public double getRedundantShareOfReads() {
        return table.ordering.redundantShareOfReads();
    }

    @Override
    public long getPrimaryFilesRead() {
        return read(Role.Kind.PRIMARY);
    }

    @Override
    public long getSegmentsRead() {
        return read(Role.Kind.SEGMENT);
    }

    @Override
    public long getRunsRead() {
        return read(Role.Kind.RUN);
    }

    @Override
    public long getOtherFilesRead() {
        return read(null);
    }

    @Override
    public long getBytesToSort() {
        return sum(holding -> TableMetrics.bytes(holding.unsure)
                + TableMetrics.bytes(holding.mixed));
    }

    @Override
    public double getResplitProgress() {
        long left = 0;
        long most = 0;
        for (Holding holding : table.holdings()) {
            left += TableMetrics.bytes(holding.unsure) + TableMetrics.bytes(holding.mixed);
            most += holding.mostUnsortedBytes;
        }
        return left == 0 ? 1 : 1 - (double) left / Math.max(left, most);
    }

    private long sum(ToLongFunction<Holding> part) {
        return table.holdings().stream().mapToLong(part).sum();
    }

    /** Asking what is held has the strategies credit what was read up to now. */
    private long read(Role.Kind kind) {
        table.holdings();
        return table.filesRead(kind);
    }
}
