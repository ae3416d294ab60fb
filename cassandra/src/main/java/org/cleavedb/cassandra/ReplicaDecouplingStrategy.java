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
 * The compaction strategy that operators name in {@code ALTER TABLE}; it keeps primary copies and
 * redundant ones in different SSTables. Primary copies, those whose first replica is this node, lie
 * in a stock layout. Redundant copies lie in a log of two layers: segments as they were flushed,
 * and sorted runs into which segments are split, at most {@code ordering} per group of a source
 * node. For comparisons, they can lie in one tree of a stock layout per source node instead.
 *
 * <p>This class only chooses which SSTables are compacted together and to which SSTable a partition
 * is written. Cassandra does all merging, purging and reading, on its own SSTables. So a wrong role
 * costs I/O at most.
 *
 * <p>Cassandra creates several instances per table: for unrepaired data, for repaired data and for
 * each pending repair, times the number of disks. Each instance knows its own SSTables only.
 *
 * <p>Locks: this object's monitor guards the manifest. It is taken inside Cassandra's lock on the
 * strategies, never the other way round. No I/O but that of tags happens under it.
 */
public final class ReplicaDecouplingStrategy extends AbstractCompactionStrategy {
    static {
        ReplicaVirtualTables.register();
        TransientReplicationWarning.register();
    }

    /** True if repairs read both sides at the same time; false saves threads. */
    private static final boolean READ_AHEAD = Boolean.parseBoolean(
            System.getProperty("org.cleavedb.cassandra.validation_read_ahead", "true"));

    private final DecouplingOptions decoupling;
    private final StockStrategies strategies;
    private final PlacementWatch watch;
    private final RoleManifest<SSTableReader> manifest = new RoleManifest<>(this::shard);
    private final RoleTracker roles;
    private final RedundantCompactions redundantCompactions;
    private final TableMetrics metrics;
    private final CompactionScheduler scheduler = new CompactionScheduler();

    public ReplicaDecouplingStrategy(ColumnFamilyStore table, Map<String, String> options) {
        super(table, options);
        decoupling = DecouplingOptions.of(options);
        metrics = TableMetrics.of(table);
        watch = metrics.watch(table, decoupling);
        strategies = new StockStrategies(table, decoupling, () -> watch.current().copies());
        metrics.ordering.configure(decoupling);
        roles = new RoleTracker(watch::current, manifest, strategies, metrics);
        redundantCompactions = new RedundantCompactions(table, decoupling, this::maxRuns,
                manifest, this::inspected, new TombstoneEstimate(table, tombstoneThreshold,
                        TimeUnit.SECONDS.toMillis(tombstoneCompactionInterval),
                        uncheckedTombstoneCompaction));
        if (watch.mayHaveRoles()) {
            metrics.register(this);
        }
    }

    /** Validates options at CREATE and ALTER; Cassandra refuses those that this returns. */
    public static Map<String, String> validateOptions(Map<String, String> options)
            throws ConfigurationException {
        return DecouplingOptions.validate(options);
    }

    @Override
    public synchronized void startup() {
        strategies.startup();
        super.startup();
    }

    @Override
    public synchronized void shutdown() {
        super.shutdown();
        roles.creditReads();
        strategies.shutdown();
        metrics.unregister(this);
    }

    // Compaction tasks.

    @Override
    public synchronized AbstractCompactionTask getNextBackgroundTask(long gcBefore) {
        Placement placement = roles.followRing();
        metrics.ordering.sampleLoad(cfs, placement);
        return scheduler.next(!redundantCompactions.awaitsRoles(placement),
                () -> redundantCompactions.next(placement, gcBefore),
                () -> strategies.nextTreeTask(gcBefore),
                () -> strategies.primary().getNextBackgroundTask(gcBefore));
    }

    @Override
    public synchronized Collection<AbstractCompactionTask> getMaximalTask(
            long gcBefore, boolean splitOutput) {
        roles.followRing();
        List<AbstractCompactionTask> tasks = new ArrayList<>();
        for (AbstractCompactionStrategy strategy : strategies.all()) {
            Collection<AbstractCompactionTask> ofStrategy =
                    strategy.getMaximalTask(gcBefore, splitOutput);
            if (ofStrategy != null) {
                tasks.addAll(ofStrategy);
            }
        }
        Collection<SSTableReader> others = filterSuspectSSTables(Iterables.filter(
                manifest.all(), file -> strategies.of(manifest.role(file)) == null));
        LifecycleTransaction transaction = others.isEmpty()
                ? null : cfs.getTracker().tryModify(others, OperationType.COMPACTION);
        if (transaction != null) {
            tasks.add(routed(transaction, gcBefore, CompactionReason.EVERYTHING));
        }
        return tasks.isEmpty() ? null : tasks;
    }

    @Override
    public synchronized AbstractCompactionTask getUserDefinedTask(
            Collection<SSTableReader> sstables, long gcBefore) {
        AbstractCompactionStrategy strategy = strategies.ofAll(sstables, manifest::role);
        if (strategy != null) {
            return strategy.getUserDefinedTask(sstables, gcBefore);
        }
        LifecycleTransaction transaction =
                cfs.getTracker().tryModify(sstables, OperationType.COMPACTION);
        return transaction == null
                ? null : routed(transaction, gcBefore, CompactionReason.CHOSEN);
    }

    /** Returns a task that rewrites SSTables one by one, as for `nodetool upgradesstables`. */
    @Override
    public synchronized AbstractCompactionTask getCompactionTask(
            LifecycleTransaction transaction, long gcBefore, long maxSSTableBytes) {
        AbstractCompactionStrategy strategy =
                strategies.ofAll(transaction.originals(), manifest::role);
        if (strategy != null) {
            return strategy.getCompactionTask(transaction, gcBefore, maxSSTableBytes);
        }
        // A rewritten segment must stay a segment: a routing task would turn it into one small run
        // per group. The output of the plain task inherits the role of its input.
        return roles.commonRole(transaction.originals()) != null
                ? new CompactionTask(cfs, transaction, gcBefore)
                : routed(transaction, gcBefore, CompactionReason.REWRITE);
    }

    private AbstractCompactionTask routed(
            LifecycleTransaction transaction, long gcBefore, CompactionReason reason) {
        Placement placement = roles.placement();
        return placement.isKnown()
                ? new RoutingCompactionTask(
                        cfs, transaction, gcBefore, placement, reason, "", metrics, 0)
                : new CompactionTask(cfs, transaction, gcBefore);
    }

    @Override
    public synchronized int getEstimatedRemainingTasks() {
        int ofStrategies = strategies.all().stream()
                .mapToInt(AbstractCompactionStrategy::getEstimatedRemainingTasks).sum();
        return ofStrategies + manifest.pendingTasks(decoupling.splitSegments, maxRuns());
    }

    /** The most runs of a group; unlimited if runs belong to trees, which merge them. */
    private int maxRuns() {
        return decoupling.treePerSource ? Integer.MAX_VALUE : metrics.ordering.current();
    }

    @Override
    public long getMaxSSTableBytes() {
        return strategies.primary().getMaxSSTableBytes();
    }

    // Notifications about SSTables.

    @Override
    public synchronized void addSSTable(SSTableReader added) {
        roles.add(added);
    }

    @Override
    public synchronized void removeSSTable(SSTableReader removed) {
        roles.remove(removed);
    }

    @Override
    public synchronized void replaceSSTables(
            Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        roles.replace(removed, added);
    }

    private int shard(SSTableReader segment) {
        return roles.placement().shardOf(segment.getFirst().getToken());
    }

    private synchronized void inspected(SSTableReader file, Role role, Placement by) {
        roles.inspected(file, role, by);
    }

    @Override
    public void metadataChanged(StatsMetadata before, SSTableReader sstable) {
        AbstractCompactionStrategy strategy;
        synchronized (this) {
            strategy = strategies.of(manifest.role(sstable));
        }
        if (strategy != null) {
            strategy.metadataChanged(before, sstable);
        }
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables() {
        return manifest.all();
    }

    /** The SSTables of this instance, for operators. */
    synchronized TableMetrics.Contents contents() {
        roles.creditReads();
        TableMetrics.Contents contents = new TableMetrics.Contents();
        contents.primary = manifest.files(Role.Kind.PRIMARY);
        contents.segments = manifest.files(Role.Kind.SEGMENT);
        contents.runs = manifest.files(Role.Kind.RUN);
        contents.runsByGroup = manifest.runsByGroup();
        contents.unclassified = manifest.unclassified();
        contents.mixed = manifest.mixed();
        contents.peakPendingBytes = roles.peakPendingBytes();
        return contents;
    }

    // Writers and scanners.

    @Override
    public SSTableMultiWriter createSSTableMultiWriter(
            Descriptor descriptor, long keyCount, long repairedAt, TimeUUID pendingRepair,
            boolean isTransient, IntervalSet<CommitLogPosition> commitLogPositions,
            int sstableLevel, SerializationHeader header, Collection<Index.Group> indexGroups,
            LifecycleNewTracker tracker) {
        Placement now = watch.current();
        if (!now.isKnown() || mustMakeOneFile(tracker, indexGroups)) {
            return super.createSSTableMultiWriter(descriptor, keyCount, repairedAt, pendingRepair,
                    isTransient, commitLogPositions, sstableLevel, header, indexGroups, tracker);
        }
        SSTableWriterParams params = new SSTableWriterParams();
        params.descriptor = descriptor;
        params.keys = keyCount;
        params.repairedAt = repairedAt;
        params.pendingRepair = pendingRepair;
        params.isTransient = isTransient;
        params.commitLog = commitLogPositions;
        params.level = sstableLevel;
        params.header = header;
        params.indexes = indexGroups;
        params.transaction = tracker;
        return new RoutingFlushWriter(cfs, params, now, decoupling.treePerSource, metrics);
    }

    /**
     * True for a flush of a table with a vector index, which writes each vector of a memtable once
     * only and fails at a second SSTable. The one SSTable gets no tag, so it is inspected and
     * separated. Compactions and streams build their indexes anew and may write several SSTables.
     */
    private static boolean mustMakeOneFile(
            LifecycleNewTracker tracker, Collection<Index.Group> indexGroups) {
        return tracker.opType() == OperationType.FLUSH
                && !indexGroups.stream().allMatch(Index.Group::supportsL0Shards);
    }

    @Override
    public ScannerList getScanners(
            Collection<SSTableReader> sstables, Collection<Range<Token>> ranges) {
        Map<AbstractCompactionStrategy, List<SSTableReader>> byStrategy = new HashMap<>();
        synchronized (this) {
            sstables.forEach(file -> byStrategy.computeIfAbsent(
                    strategies.of(manifest.role(file)), any -> new ArrayList<>()).add(file));
        }
        List<ISSTableScanner> scanners = new ArrayList<>();
        try {
            for (Map.Entry<AbstractCompactionStrategy, List<SSTableReader>> part
                    : byStrategy.entrySet()) {
                // A stock strategy needs fewer scanners than SSTables if it knows that some of them
                // do not overlap.
                ScannerList ofPart = part.getKey() == null
                        ? super.getScanners(part.getValue(), ranges)
                        : part.getKey().getScanners(part.getValue(), ranges);
                // Only the validation of a repair asks for ranges.
                scanners.addAll(ranges == null || !READ_AHEAD || ofPart.scanners.isEmpty()
                        ? ofPart.scanners
                        : List.of(ReadAheadScanner.of(cfs.metadata(), ofPart.scanners)));
            }
        } catch (Throwable failure) {
            ISSTableScanner.closeAllAndPropagate(scanners, failure);
        }
        return new ScannerList(scanners);
    }

    /** Groups SSTables by role, so that the outputs of an anticompaction inherit a role. */
    @Override
    public synchronized Collection<Collection<SSTableReader>> groupSSTablesForAntiCompaction(
            Collection<SSTableReader> sstables) {
        Map<Role, List<SSTableReader>> byRole = new HashMap<>();
        for (SSTableReader file : sstables) {
            byRole.computeIfAbsent(manifest.role(file), any -> new ArrayList<>()).add(file);
        }
        List<Collection<SSTableReader>> groups = new ArrayList<>();
        byRole.forEach((role, files) -> groups.addAll(strategies.of(role) == null
                ? super.groupSSTablesForAntiCompaction(files)
                : strategies.of(role).groupSSTablesForAntiCompaction(files)));
        return groups;
    }

    /** False, since an SSTable that is still being written has no role yet. */
    @Override
    public boolean supportsEarlyOpen() {
        return false;
    }
}
