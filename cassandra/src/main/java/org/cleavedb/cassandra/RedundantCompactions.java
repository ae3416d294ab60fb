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
 * The factory of background tasks for redundant copies: it turns the picks of the manifest into
 * tasks of Cassandra. Each task claims its SSTables in a transaction, so that no two operations
 * work on the same one. A pick that cannot be claimed is tried again at Cassandra's next call.
 */
final class RedundantCompactions {
    /** The receiver of inspection results. */
    interface InspectionListener {
        /** @param role null if the SSTable is mixed */
        void inspected(SSTableReader file, Role role, Placement by);
    }

    private final ColumnFamilyStore table;
    private final DecouplingOptions options;
    private final RoleManifest<SSTableReader> manifest;
    private final InspectionListener listener;
    private final TombstoneEstimate tombstones;
    private final IntSupplier ordering;
    private final FailureBackoff<SSTableReader> backoff = new FailureBackoff<>(System::nanoTime);
    private final CompactionPicker<SSTableReader> picker;
    /** SSTables that an inspection has claimed; inspections end in threads of their own. */
    private final Set<SSTableReader> underInspection = ConcurrentHashMap.newKeySet();

    RedundantCompactions(ColumnFamilyStore table, DecouplingOptions options, IntSupplier ordering,
            RoleManifest<SSTableReader> manifest, InspectionListener listener,
            TombstoneEstimate tombstones) {
        this.table = table;
        this.options = options;
        this.ordering = ordering;
        this.manifest = manifest;
        this.listener = listener;
        this.tombstones = tombstones;
        picker = new CompactionPicker<>(
                manifest, options.splitSegments, SSTableReader::onDiskLength, backoff);
    }

    /** The most urgent task, or null. Inspections come first, as other work depends on roles. */
    AbstractCompactionTask next(Placement placement, long gcBefore) {
        if (!placement.isKnown()) {
            return null;
        }
        Predicate<SSTableReader> free = free();
        SSTableReader unclassified = manifest.pickForInspection(free);
        if (unclassified != null) {
            return inspection(unclassified, placement);
        }
        CompactionPicker.Pick<SSTableReader> pick = picker.next(ordering.getAsInt(), free);
        if (pick != null) {
            return taskOf(pick, placement, gcBefore, free);
        }
        return options.treePerSource ? null : dropTombstones(free, placement, gcBefore);
    }

    /**
     * True while some SSTable has no role, but will have one soon, because an inspection of it is
     * running or possible. An SSTable that another operation has claimed does not count: {@code
     * nodetool cleanup} claims all SSTables of a table and then takes hours. Neither does one that
     * cannot be read, since it will never have a role.
     */
    boolean awaitsRoles(Placement placement) {
        return placement.isKnown()
                && manifest.unclassified().stream().anyMatch(free().or(underInspection::contains));
    }

    private Predicate<SSTableReader> free() {
        Set<SSTableReader> compacting = table.getTracker().getCompacting();
        return file -> !compacting.contains(file) && !file.isMarkedSuspect();
    }

    private AbstractCompactionTask taskOf(CompactionPicker.Pick<SSTableReader> pick,
            Placement placement, long gcBefore, Predicate<SSTableReader> free) {
        switch (pick.reason) {
            case SPLIT:
                return split(pick.files, "", placement, gcBefore, free);
            case MERGE:
                return routed(pick.files, placement, gcBefore, pick.reason, groupOf(pick.files));
            default:
                RoutingCompactionTask task =
                        routed(pick.files, placement, gcBefore, pick.reason, "");
                return task == null ? null : task.onFailure(backoff::recordFailure);
        }
    }

    /** @param why the cause for the log, empty for an ordinary split */
    private AbstractCompactionTask split(List<SSTableReader> segments, String why,
            Placement placement, long gcBefore, Predicate<SSTableReader> free) {
        List<SSTableReader> runs = manifest.pickRunsForSplit(ordering.getAsInt(),
                TableMetrics.bytes(segments), Math.max(1, placement.groups()),
                SSTableReader::onDiskLength, free);
        List<SSTableReader> all = new ArrayList<>(segments);
        all.addAll(runs);
        String merging = runs.isEmpty() ? "" : "and merging with it " + runs.size() + " run(s)";
        return routed(all, placement, gcBefore, CompactionReason.SPLIT,
                (why + ' ' + merging).trim(), TableMetrics.bytes(runs));
    }

    private AbstractCompactionTask inspection(SSTableReader file, Placement placement) {
        LifecycleTransaction transaction = claim(List.of(file));
        if (transaction == null) {
            return null;
        }
        underInspection.add(file);
        return new InspectionTask(table, transaction, placement,
                role -> listener.inspected(file, role, placement),
                () -> underInspection.remove(file));
    }

    /**
     * A task that purges tombstones, or null if it is not worth while. Segments are split first,
     * however few there are, since only the runs of a group contain all rows that a tombstone may
     * hide. For the same reason a group is merged as a whole.
     */
    private AbstractCompactionTask dropTombstones(
            Predicate<SSTableReader> free, Placement placement, long gcBefore) {
        List<SSTableReader> segments = manifest.pickSegments(1, Integer.MAX_VALUE, free);
        if (segments.stream().anyMatch(file -> tombstones.isWorthDropping(
                file, other -> manifest.role(other) == null, gcBefore))) {
            return split(segments, "for its tombstones", placement, gcBefore, free);
        }
        for (Set<SSTableReader> group : manifest.groups()) {
            if (group.stream().allMatch(free) && group.stream().anyMatch(file ->
                    tombstones.isWorthDropping(file, this::mayBeOfAnyGroup, gcBefore))) {
                return routed(
                        group, placement, gcBefore, CompactionReason.TOMBSTONES, groupOf(group));
            }
        }
        return null;
    }

    /** True if an SSTable may share partitions with any group, unlike primary ones and runs. */
    private boolean mayBeOfAnyGroup(SSTableReader file) {
        Role role = manifest.role(file);
        return role == null || role.kind == Role.Kind.SEGMENT;
    }

    private RoutingCompactionTask routed(Collection<SSTableReader> files, Placement placement,
            long gcBefore, CompactionReason reason, String target) {
        return routed(files, placement, gcBefore, reason, target, 0);
    }

    private RoutingCompactionTask routed(Collection<SSTableReader> files, Placement placement,
            long gcBefore, CompactionReason reason, String target, long mergedRunBytes) {
        LifecycleTransaction transaction = claim(files);
        return transaction == null ? null : new RoutingCompactionTask(
                table, transaction, gcBefore, placement, reason, target, TableMetrics.of(table),
                mergedRunBytes);
    }

    private String groupOf(Collection<SSTableReader> runs) {
        return manifest.role(runs.iterator().next()).group;
    }

    private LifecycleTransaction claim(Collection<SSTableReader> files) {
        return table.getTracker().tryModify(files, OperationType.COMPACTION);
    }
}
