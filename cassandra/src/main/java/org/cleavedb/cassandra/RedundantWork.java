package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
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
    /** Told what an inspection has found. */
    interface Findings {
        void found(SSTableReader file, Role role, Placement by);
    }

    private final ColumnFamilyStore table;
    private final DecouplingOptions options;
    private final FileBook<SSTableReader> book;
    private final Findings findings;
    private final TombstoneEstimate tombstones;
    private final IntSupplier ordering;
    private final LeftAlone<SSTableReader> leftAlone = new LeftAlone<>(System::nanoTime);
    private final Agenda<SSTableReader> agenda;
    /** Files that an inspection has claimed; it ends in a thread of its own. */
    private final Set<SSTableReader> inspected = ConcurrentHashMap.newKeySet();

    RedundantWork(ColumnFamilyStore table, DecouplingOptions options, IntSupplier ordering,
            FileBook<SSTableReader> book, Findings findings, TombstoneEstimate tombstones) {
        this.table = table;
        this.options = options;
        this.ordering = ordering;
        this.book = book;
        this.findings = findings;
        this.tombstones = tombstones;
        agenda = new Agenda<>(
                book, options.splitSegments, SSTableReader::onDiskLength, leftAlone);
    }

    /** The most urgent task, or null: first what keeps a role from being known. */
    AbstractCompactionTask next(Placement placement, long gcBefore) {
        if (!placement.isKnown()) {
            return null;
        }
        Predicate<SSTableReader> free = free();
        SSTableReader unsure = book.toInspect(free);
        if (unsure != null) {
            return inspection(unsure, placement);
        }
        Agenda.Item<SSTableReader> item = agenda.next(ordering.getAsInt(), free);
        if (item != null) {
            return taskOf(item, placement, gcBefore, free);
        }
        return options.treePerSource ? null : dropTombstones(free, placement, gcBefore);
    }

    /**
     * Whether some file has no role yet, but will have one soon: it is inspected, or can be. A file
     * that another operation has claimed is not waited for: `cleanup` claims all files of a table,
     * and is at work for hours. Nor is one that cannot be read, as it will never have a role.
     */
    boolean awaitsRoles(Placement placement) {
        return placement.isKnown()
                && book.unsure().stream().anyMatch(free().or(inspected::contains));
    }

    private Predicate<SSTableReader> free() {
        Set<SSTableReader> compacting = table.getTracker().getCompacting();
        return file -> !compacting.contains(file) && !file.isMarkedSuspect();
    }

    private AbstractCompactionTask taskOf(Agenda.Item<SSTableReader> item, Placement placement,
            long gcBefore, Predicate<SSTableReader> free) {
        switch (item.purpose) {
            case SPLIT:
                return split(item.files, "", placement, gcBefore, free);
            case MERGE:
                return routed(item.files, placement, gcBefore, item.purpose, groupOf(item.files));
            default:
                RoutingTask task = routed(item.files, placement, gcBefore, item.purpose, "");
                return task == null ? null : task.tellingFailure(leftAlone::add);
        }
    }

    /** @param why of what is not said by itself, for the log */
    private AbstractCompactionTask split(List<SSTableReader> segments, String why,
            Placement placement, long gcBefore, Predicate<SSTableReader> free) {
        List<SSTableReader> runs = book.toMergeBySplit(ordering.getAsInt(),
                TableMetrics.bytes(segments), Math.max(1, placement.groups()),
                SSTableReader::onDiskLength, free);
        List<SSTableReader> all = new ArrayList<>(segments);
        all.addAll(runs);
        String merging = runs.isEmpty() ? "" : "and merging with it " + runs.size() + " run(s)";
        return routed(all, placement, gcBefore, Purpose.SPLIT, (why + ' ' + merging).trim(),
                TableMetrics.bytes(runs));
    }

    private AbstractCompactionTask inspection(SSTableReader file, Placement placement) {
        LifecycleTransaction transaction = claim(List.of(file));
        if (transaction == null) {
            return null;
        }
        inspected.add(file);
        return new InspectionTask(table, transaction, placement,
                role -> findings.found(file, role, placement), () -> inspected.remove(file));
    }

    /**
     * Segments come first, few as they may be, since only in a run do tombstones meet what they
     * hide. A group is merged as a whole for the same reason; what its own runs hold is then in
     * nobody's way.
     */
    private AbstractCompactionTask dropTombstones(
            Predicate<SSTableReader> free, Placement placement, long gcBefore) {
        List<SSTableReader> segments = book.toSplit(1, Integer.MAX_VALUE, free);
        if (segments.stream().anyMatch(file -> tombstones.isWorthDropping(
                file, other -> book.role(other) == null, gcBefore))) {
            return split(segments, "for its tombstones", placement, gcBefore, free);
        }
        for (Set<SSTableReader> group : book.groups()) {
            if (group.stream().allMatch(free) && group.stream().anyMatch(file ->
                    tombstones.isWorthDropping(file, this::mayBeOfAnyGroup, gcBefore))) {
                return routed(group, placement, gcBefore, Purpose.TOMBSTONES, groupOf(group));
            }
        }
        return null;
    }

    /** Primary copies and runs of other groups hold other partitions than the runs of a group. */
    private boolean mayBeOfAnyGroup(SSTableReader file) {
        Role role = book.role(file);
        return role == null || role.kind == Role.Kind.SEGMENT;
    }

    private RoutingTask routed(Collection<SSTableReader> files, Placement placement,
            long gcBefore, Purpose purpose, String of) {
        return routed(files, placement, gcBefore, purpose, of, 0);
    }

    private RoutingTask routed(Collection<SSTableReader> files, Placement placement,
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
