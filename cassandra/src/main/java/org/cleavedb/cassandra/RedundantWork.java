package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.function.IntSupplier;
import java.util.function.Predicate;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * Turns what the book asks for into tasks of Cassandra: files are claimed in a transaction, so no
 * two tasks ever work on one file. What cannot be claimed now is asked for again later.
 */
final class RedundantWork {
    /** Taking apart more at once would need much room on the disk. */
    private static final int MIXED_AT_ONCE = 8;

    /** A backlog, as after a node has joined, is split in parts: so many of each lane. */
    private static final int SEGMENTS_AT_ONCE = 32;

    /** Told what an inspection has found. */
    interface Findings {
        void found(SSTableReader file, Role role, Placement by);
    }

    /** Cassandra's estimate whether rewriting a file would drop enough tombstones. */
    interface TombstoneEstimate {
        boolean isWorthDropping(SSTableReader file, long gcBefore);
    }

    private final ColumnFamilyStore table;
    private final DecouplingOptions options;
    private final FileBook<SSTableReader> book;
    private final Findings findings;
    private final TombstoneEstimate tombstones;
    private final IntSupplier ordering;

    RedundantWork(ColumnFamilyStore table, DecouplingOptions options, IntSupplier ordering,
            FileBook<SSTableReader> book, Findings findings, TombstoneEstimate tombstones) {
        this.table = table;
        this.options = options;
        this.ordering = ordering;
        this.book = book;
        this.findings = findings;
        this.tombstones = tombstones;
    }

    /**
     * The most urgent task, or null: first what keeps a role from being known, then what makes
     * reads dear, then what has gathered.
     */
    AbstractCompactionTask next(Placement placement, long gcBefore) {
        if (!placement.isKnown()) {
            return null;
        }
        Set<SSTableReader> compacting = table.getTracker().getCompacting();
        Predicate<SSTableReader> free =
                file -> !compacting.contains(file) && !file.isMarkedSuspect();
        SSTableReader unsure = book.toInspect(free);
        if (unsure != null) {
            return inspection(unsure, placement);
        }
        List<SSTableReader> mixed = book.toSeparate(MIXED_AT_ONCE, free);
        if (!mixed.isEmpty()) {
            return routed(mixed, placement, gcBefore, Purpose.SEPARATE, "");
        }
        List<SSTableReader> overfull = book.toMerge(
                ordering.getAsInt(), SSTableReader::onDiskLength, free);
        if (!overfull.isEmpty()) {
            return routed(overfull, placement, gcBefore, Purpose.MERGE, groupOf(overfull));
        }
        List<SSTableReader> segments = book.toSplit(options.splitSegments,
                Math.max(options.splitSegments, SEGMENTS_AT_ONCE), free);
        if (!segments.isEmpty()) {
            return split(segments, placement, gcBefore, free);
        }
        return options.treePerSource ? null : tombstoneMerge(free, placement, gcBefore);
    }

    private AbstractCompactionTask split(List<SSTableReader> segments, Placement placement,
            long gcBefore, Predicate<SSTableReader> free) {
        List<SSTableReader> runs = book.toMergeBySplit(ordering.getAsInt(),
                TableMetrics.bytes(segments), Math.max(1, placement.groups()),
                SSTableReader::onDiskLength, free);
        List<SSTableReader> all = new ArrayList<>(segments);
        all.addAll(runs);
        return routed(all, placement, gcBefore, Purpose.SPLIT,
                runs.isEmpty() ? "" : "and merging with it " + runs.size() + " run(s)",
                TableMetrics.bytes(runs));
    }

    private AbstractCompactionTask inspection(SSTableReader file, Placement placement) {
        LifecycleTransaction transaction = claim(List.of(file));
        return transaction == null ? null : new InspectionTask(table, transaction, placement,
                role -> findings.found(file, role, placement));
    }

    /** A whole group is merged, since older runs of it may still need the tombstones of one. */
    private AbstractCompactionTask tombstoneMerge(
            Predicate<SSTableReader> free, Placement placement, long gcBefore) {
        for (Set<SSTableReader> group : book.groups()) {
            if (group.stream().allMatch(free) && group.stream()
                    .anyMatch(file -> tombstones.isWorthDropping(file, gcBefore))) {
                return routed(group, placement, gcBefore, Purpose.TOMBSTONES, groupOf(group));
            }
        }
        return null;
    }

    private AbstractCompactionTask routed(Collection<SSTableReader> files, Placement placement,
            long gcBefore, Purpose purpose, String of) {
        return routed(files, placement, gcBefore, purpose, of, 0);
    }

    private AbstractCompactionTask routed(Collection<SSTableReader> files, Placement placement,
            long gcBefore, Purpose purpose, String of, long takenIn) {
        LifecycleTransaction transaction = claim(files);
        return transaction == null ? null : new RoutingTask(
                table, transaction, gcBefore, placement, purpose, of, TableMetrics.of(table),
                takenIn);
    }

    private String groupOf(Collection<SSTableReader> runs) {
        return book.role(runs.iterator().next()).group;
    }

    private LifecycleTransaction claim(Collection<SSTableReader> files) {
        return table.getTracker().tryModify(files, OperationType.COMPACTION);
    }
}
