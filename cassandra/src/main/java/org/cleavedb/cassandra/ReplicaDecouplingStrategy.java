package org.cleavedb.cassandra;

import com.google.common.collect.Iterables;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.commitlog.IntervalSet;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.CompactionTask;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleNewTracker;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.index.Index;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.SSTableMultiWriter;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.metadata.StatsMetadata;
import org.apache.cassandra.utils.TimeUUID;

/**
 * The compaction strategy that operators name in {@code ALTER TABLE}. Primary copies (this node is
 * the first replica of the token) lie in files of their own, in a stock layout. Redundant copies
 * lie in a log of two layers: segments as they were flushed, and, split from these, sorted runs,
 * at most {@code ordering} per group of a source node; or, to be compared with, in one tree of a
 * stock layout per source node.
 *
 * <p>Only the choice of files and of where partitions are written to is ours. Merging, tombstones,
 * expiry and reads are Cassandra's, on Cassandra's own files, so a wrong role costs I/O at most.
 *
 * <p>Cassandra makes several of these per table: for unrepaired and repaired data and for each
 * repair that is under way, times the disks. Each knows its own files only.
 *
 * <p>Locks: this object's monitor guards the book. It is taken inside Cassandra's lock on the
 * strategies, never the other way round; nothing is read or written under it but tags.
 */
public final class ReplicaDecouplingStrategy extends AbstractCompactionStrategy {
    static {
        ReplicaViews.register();
        TransientReplicasNotice.register();
    }

    /** Whether repairs read both sides at the same time; an operator may want fewer threads. */
    private static final boolean READ_AHEAD = Boolean.parseBoolean(
            System.getProperty("org.cleavedb.cassandra.validation_read_ahead", "true"));

    private final DecouplingOptions chosen;
    private final Layouts layouts;
    private final PlacementWatch watch;
    private final FileBook<SSTableReader> book = new FileBook<>(this::lane);
    private final Sides sides;
    private final RedundantWork redundantWork;
    private final TableMetrics metrics;
    private final Turns turns = new Turns();

    public ReplicaDecouplingStrategy(ColumnFamilyStore table, Map<String, String> options) {
        super(table, options);
        chosen = DecouplingOptions.of(options);
        watch = new PlacementWatch(table, chosen);
        layouts = new Layouts(table, chosen, () -> watch.current().copies());
        metrics = TableMetrics.of(table);
        metrics.ordering.configure(chosen);
        sides = new Sides(watch::current, book, layouts, metrics);
        redundantWork = new RedundantWork(table, chosen, this::mostRuns, book, this::inspected,
                new TombstoneEstimate(table, tombstoneThreshold,
                        TimeUnit.SECONDS.toMillis(tombstoneCompactionInterval),
                        uncheckedTombstoneCompaction));
        if (watch.mayHaveRoles()) {
            metrics.begin(this);
        }
    }

    /** Called by Cassandra at CREATE and ALTER; returns the options that nobody knows. */
    public static Map<String, String> validateOptions(Map<String, String> options)
            throws ConfigurationException {
        return DecouplingOptions.validate(options);
    }

    @Override
    public synchronized void startup() {
        layouts.startup();
        super.startup();
    }

    @Override
    public synchronized void shutdown() {
        super.shutdown();
        sides.tallyReads();
        layouts.shutdown();
        metrics.end(this);
    }

    // What to do next.

    @Override
    public synchronized AbstractCompactionTask getNextBackgroundTask(long gcBefore) {
        Placement placement = sides.follow();
        metrics.ordering.follow(cfs, placement);
        return turns.next(!redundantWork.awaitsRoles(placement),
                () -> redundantWork.next(placement, gcBefore),
                () -> layouts.nextOfTrees(gcBefore),
                () -> layouts.primary().getNextBackgroundTask(gcBefore));
    }

    @Override
    public synchronized Collection<AbstractCompactionTask> getMaximalTask(
            long gcBefore, boolean splitOutput) {
        sides.follow();
        List<AbstractCompactionTask> tasks = new ArrayList<>();
        for (AbstractCompactionStrategy layout : layouts.all()) {
            Collection<AbstractCompactionTask> ofLayout =
                    layout.getMaximalTask(gcBefore, splitOutput);
            if (ofLayout != null) {
                tasks.addAll(ofLayout);
            }
        }
        Collection<SSTableReader> others = filterSuspectSSTables(Iterables.filter(
                book.all(), file -> layouts.of(book.role(file)) == null));
        LifecycleTransaction transaction = others.isEmpty()
                ? null : cfs.getTracker().tryModify(others, OperationType.COMPACTION);
        if (transaction != null) {
            tasks.add(routed(transaction, gcBefore, Purpose.EVERYTHING));
        }
        return tasks.isEmpty() ? null : tasks;
    }

    @Override
    public synchronized AbstractCompactionTask getUserDefinedTask(
            Collection<SSTableReader> sstables, long gcBefore) {
        AbstractCompactionStrategy layout = layouts.ofAll(sstables, book::role);
        if (layout != null) {
            return layout.getUserDefinedTask(sstables, gcBefore);
        }
        LifecycleTransaction transaction =
                cfs.getTracker().tryModify(sstables, OperationType.COMPACTION);
        return transaction == null
                ? null : routed(transaction, gcBefore, Purpose.CHOSEN);
    }

    /** For rewriting files one by one, as `nodetool upgradesstables` does. */
    @Override
    public synchronized AbstractCompactionTask getCompactionTask(
            LifecycleTransaction transaction, long gcBefore, long maxSSTableBytes) {
        AbstractCompactionStrategy layout = layouts.ofAll(transaction.originals(), book::role);
        if (layout != null) {
            return layout.getCompactionTask(transaction, gcBefore, maxSSTableBytes);
        }
        // What is made of segments must stay segments: routed, each would end in as many small runs
        // as there are groups. Whoever writes it, it inherits the role as it comes back.
        return sides.commonRole(transaction.originals()) != null
                ? new CompactionTask(cfs, transaction, gcBefore)
                : routed(transaction, gcBefore, Purpose.REWRITE);
    }

    private AbstractCompactionTask routed(
            LifecycleTransaction transaction, long gcBefore, Purpose purpose) {
        Placement placement = sides.placement();
        return placement.isKnown()
                ? new RoutingTask(cfs, transaction, gcBefore, placement, purpose, "", metrics, 0)
                : new CompactionTask(cfs, transaction, gcBefore);
    }

    @Override
    public synchronized int getEstimatedRemainingTasks() {
        int ofLayouts = layouts.all().stream()
                .mapToInt(AbstractCompactionStrategy::getEstimatedRemainingTasks).sum();
        return ofLayouts + book.waitingTasks(chosen.splitSegments, mostRuns());
    }

    /** The log merges no runs where they are the files of trees. */
    private int mostRuns() {
        return chosen.treePerSource ? Integer.MAX_VALUE : metrics.ordering.current();
    }

    @Override
    public long getMaxSSTableBytes() {
        return layouts.primary().getMaxSSTableBytes();
    }

    // Files that come and go.

    @Override
    public synchronized void addSSTable(SSTableReader added) {
        sides.add(added);
    }

    @Override
    public synchronized void removeSSTable(SSTableReader removed) {
        sides.remove(removed);
    }

    @Override
    public synchronized void replaceSSTables(
            Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        sides.replace(removed, added);
    }

    private int lane(SSTableReader segment) {
        return sides.placement().laneOf(segment.getFirst().getToken());
    }

    private synchronized void inspected(SSTableReader file, Role role, Placement by) {
        sides.inspected(file, role, by);
    }

    @Override
    public void metadataChanged(StatsMetadata before, SSTableReader sstable) {
        AbstractCompactionStrategy layout;
        synchronized (this) {
            layout = layouts.of(book.role(sstable));
        }
        if (layout != null) {
            layout.metadataChanged(before, sstable);
        }
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables() {
        return book.all();
    }

    /** For operators: what this strategy holds now. */
    synchronized TableMetrics.Holding holding() {
        sides.tallyReads();
        TableMetrics.Holding holding = new TableMetrics.Holding();
        holding.primary = book.files(Role.Kind.PRIMARY);
        holding.segments = book.files(Role.Kind.SEGMENT);
        holding.runs = book.files(Role.Kind.RUN);
        holding.runsByGroup = book.runsByGroup();
        holding.unsure = book.unsure();
        holding.mixed = book.mixed();
        holding.mostUnsortedBytes = sides.mostUnsortedBytes();
        return holding;
    }

    // How files are written and read.

    @Override
    public SSTableMultiWriter createSSTableMultiWriter(
            Descriptor descriptor, long keyCount, long repairedAt, TimeUUID pendingRepair,
            boolean isTransient, IntervalSet<CommitLogPosition> commitLogPositions,
            int sstableLevel, SerializationHeader header, Collection<Index.Group> indexGroups,
            LifecycleNewTracker tracker) {
        Placement now = watch.current();
        if (!now.isKnown()) {
            return super.createSSTableMultiWriter(descriptor, keyCount, repairedAt, pendingRepair,
                    isTransient, commitLogPositions, sstableLevel, header, indexGroups, tracker);
        }
        WriterRecipe recipe = new WriterRecipe();
        recipe.descriptor = descriptor;
        recipe.keys = keyCount;
        recipe.repairedAt = repairedAt;
        recipe.pendingRepair = pendingRepair;
        recipe.isTransient = isTransient;
        recipe.commitLog = commitLogPositions;
        recipe.level = sstableLevel;
        recipe.header = header;
        recipe.indexes = indexGroups;
        recipe.transaction = tracker;
        return new RoutingFlushWriter(cfs, recipe, now, chosen.treePerSource, metrics);
    }

    @Override
    public ScannerList getScanners(
            Collection<SSTableReader> sstables, Collection<Range<Token>> ranges) {
        Map<AbstractCompactionStrategy, List<SSTableReader>> byLayout = new HashMap<>();
        synchronized (this) {
            sstables.forEach(file -> byLayout.computeIfAbsent(
                    layouts.of(book.role(file)), any -> new ArrayList<>()).add(file));
        }
        List<ISSTableScanner> scanners = new ArrayList<>();
        try {
            for (Map.Entry<AbstractCompactionStrategy, List<SSTableReader>> part
                    : byLayout.entrySet()) {
                // A layout may need fewer scanners than files, as it knows which don't overlap.
                ScannerList ofPart = part.getKey() == null
                        ? super.getScanners(part.getValue(), ranges)
                        : part.getKey().getScanners(part.getValue(), ranges);
                // Cassandra names ranges only when a repair validates them.
                scanners.addAll(ranges == null || !READ_AHEAD || ofPart.scanners.isEmpty()
                        ? ofPart.scanners
                        : List.of(ReadAhead.of(cfs.metadata(), ofPart.scanners)));
            }
        } catch (Throwable failure) {
            ISSTableScanner.closeAllAndPropagate(scanners, failure);
        }
        return new ScannerList(scanners);
    }

    /** Only files of one role are rewritten together, so the role is not lost by a repair. */
    @Override
    public synchronized Collection<Collection<SSTableReader>> groupSSTablesForAntiCompaction(
            Collection<SSTableReader> sstables) {
        Map<Role, List<SSTableReader>> byRole = new HashMap<>();
        for (SSTableReader file : sstables) {
            byRole.computeIfAbsent(book.role(file), any -> new ArrayList<>()).add(file);
        }
        List<Collection<SSTableReader>> groups = new ArrayList<>();
        byRole.forEach((role, files) -> groups.addAll(layouts.of(role) == null
                ? super.groupSSTablesForAntiCompaction(files)
                : layouts.of(role).groupSSTablesForAntiCompaction(files)));
        return groups;
    }

    /** Files that are opened while they are still written have no role yet. */
    @Override
    public boolean supportsEarlyOpen() {
        return false;
    }
}
