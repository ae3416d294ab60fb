package org.cleavedb.cassandra;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import org.cleavedb.cassandra.TableMetrics.Contents;

/** The JMX bean of one table, which computes the attributes from {@link TableMetrics}. */
final class ReplicaDecouplingBean implements ReplicaDecouplingMXBean {
    private final TableMetrics table;

    ReplicaDecouplingBean(TableMetrics table) {
        this.table = table;
    }

    @Override
    public int getPrimaryFiles() {
        return (int) sum(contents -> contents.primary.size());
    }

    @Override
    public long getPrimaryBytes() {
        return sum(contents -> TableMetrics.bytes(contents.primary));
    }

    @Override
    public int getSegments() {
        return (int) sum(contents -> contents.segments.size());
    }

    @Override
    public long getSegmentBytes() {
        return sum(contents -> TableMetrics.bytes(contents.segments));
    }

    @Override
    public int getRuns() {
        return (int) sum(contents -> contents.runs.size());
    }

    @Override
    public long getRunBytes() {
        return sum(contents -> TableMetrics.bytes(contents.runs));
    }

    @Override
    public Map<String, Integer> getRunsByGroup() {
        Map<String, Integer> all = new TreeMap<>();
        for (Contents contents : table.contents()) {
            contents.runsByGroup.forEach((group, runs) -> all.merge(group, runs, Integer::sum));
        }
        return all;
    }

    @Override
    public int getMaxRunsPerGroup() {
        return table.contents().stream().flatMap(contents -> contents.runsByGroup.values().stream())
                .max(Integer::compare).orElse(0);
    }

    @Override
    public int getFilesToInspect() {
        return (int) sum(contents -> contents.unclassified.size());
    }

    @Override
    public int getMixedFiles() {
        return (int) sum(contents -> contents.mixed.size());
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
        return table.rewritten(CompactionReason.SPLIT);
    }

    @Override
    public long getBytesMerged() {
        return table.rewritten(CompactionReason.MERGE)
                + table.rewritten(CompactionReason.TOMBSTONES)
                + table.treesCompacted();
    }

    @Override
    public long getBytesSeparated() {
        return table.rewritten(CompactionReason.SEPARATE);
    }

    @Override
    public long getBytesRewritten() {
        return table.rewritten(CompactionReason.EVERYTHING)
                + table.rewritten(CompactionReason.CHOSEN)
                + table.rewritten(CompactionReason.REWRITE);
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
    public long getBytesToResplit() {
        return sum(contents -> TableMetrics.bytes(contents.unclassified)
                + TableMetrics.bytes(contents.mixed));
    }

    @Override
    public double getResplitProgress() {
        long left = 0;
        long most = 0;
        for (Contents contents : table.contents()) {
            left += TableMetrics.bytes(contents.unclassified) + TableMetrics.bytes(contents.mixed);
            most += contents.peakPendingBytes;
        }
        return left == 0 ? 1 : 1 - (double) left / Math.max(left, most);
    }

    private long sum(ToLongFunction<Contents> part) {
        return table.contents().stream().mapToLong(part).sum();
    }

    /** Reads a counter after the strategies have credited all reads, see {@link TableMetrics}. */
    private long read(Role.Kind kind) {
        table.contents();
        return table.filesRead(kind);
    }
}
