package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.IntSupplier;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.compaction.LeveledCompactionStrategy;
import org.apache.cassandra.db.compaction.LeveledCompactionTask;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.metadata.StatsMetadata;

/**
 * Cassandra's leveled layout for a part of a table's copies. Each compaction out of level 0 writes
 * all of level 1 again. A flush brings a part of the copies only, with three copies a third: taken
 * up like the flush of a whole table, each byte would have level 1 written three times as often.
 * So flushes gather in front of level 0, in one file, until as much has come as a flush of the
 * whole table brings; the stock layout does the same with what is less than one of its files.
 *
 * <p>A simulation with YCSB's skew and flushes of 2.5 files has compactions write a sixth less.
 *
 * <p>Invariant <b>each file is either waiting here or known to the stock layout</b>. The monitor
 * guards this; the stock layout has one of its own, taken inside.
 */
final class GatheringLeveled extends LeveledCompactionStrategy {
    /** In files: what the stock layout takes for the right size of level 0. */
    private static final int MOST_FILES = 4;

    private final IntSupplier flushesWanted;
    private final Set<SSTableReader> waiting = new LinkedHashSet<>();

    /** @param flushesWanted how many flushes bring as much as one of the whole table */
    GatheringLeveled(ColumnFamilyStore table, Map<String, String> options,
            IntSupplier flushesWanted) {
        super(table, options);
        this.flushesWanted = flushesWanted;
    }

    /** Whether files of these sizes should wait no longer. */
    static boolean areEnough(List<Long> sizes, int flushesWanted, long fileSize) {
        long all = sizes.stream().mapToLong(Long::longValue).sum();
        // What was put together already is larger than what a flush brings.
        long flush = sizes.stream().mapToLong(Long::longValue).min().orElse(0);
        return all > fileSize && all >= Math.min(flushesWanted * flush, MOST_FILES * fileSize);
    }

    @Override
    public synchronized AbstractCompactionTask getNextBackgroundTask(long gcBefore) {
        List<Long> sizes = waiting.stream()
                .map(SSTableReader::onDiskLength).collect(Collectors.toList());
        // The stock layout knows how to drop tombstones, and more may never come.
        if (areEnough(sizes, flushesWanted.getAsInt(), getMaxSSTableBytes())
                || waiting.stream().anyMatch(file -> worthDroppingTombstones(file, gcBefore))) {
            release();
        }
        AbstractCompactionTask task = putTogether(gcBefore);
        return task != null ? task : super.getNextBackgroundTask(gcBefore);
    }

    /** So that a read meets one file of what is waiting. */
    private AbstractCompactionTask putTogether(long gcBefore) {
        List<SSTableReader> files = filterSuspectSSTables(waiting).stream()
                .limit(cfs.getMaximumCompactionThreshold()).collect(Collectors.toList());
        if (files.size() < 2) {
            return null;
        }
        // None, if one is busy: then they are asked for again.
        LifecycleTransaction transaction =
                cfs.getTracker().tryModify(files, OperationType.COMPACTION);
        return transaction == null ? null : new LeveledCompactionTask(
                cfs, transaction, 0, gcBefore, Long.MAX_VALUE, false);
    }

    private void release() {
        List<SSTableReader> enough = new ArrayList<>(waiting);
        waiting.clear();
        super.addSSTables(enough);
    }

    @Override
    public synchronized Collection<AbstractCompactionTask> getMaximalTask(
            long gcBefore, boolean splitOutput) {
        release();
        return super.getMaximalTask(gcBefore, splitOutput);
    }

    @Override
    public synchronized int getEstimatedRemainingTasks() {
        return super.getEstimatedRemainingTasks() + (waiting.size() < 2 ? 0 : 1);
    }

    @Override
    public synchronized void addSSTable(SSTableReader added) {
        addSSTables(List.of(added));
    }

    @Override
    public synchronized void addSSTables(Iterable<SSTableReader> added) {
        super.addSSTables(sorted(added));
    }

    /** Has those of level 0 wait; returns the others, which the stock layout is told of. */
    private List<SSTableReader> sorted(Iterable<SSTableReader> added) {
        return sorted(added, file -> file.getSSTableLevel() == 0,
                file -> super.getSSTables().contains(file), waiting);
    }

    /**
     * Cassandra may tell twice that a file has come. One that waits no longer must not wait again:
     * it would be in both places, and could be compacted away in one only.
     *
     * @param known whether the stock layout knows it already
     */
    static <F> List<F> sorted(
            Iterable<F> added, Predicate<F> isFlushed, Predicate<F> known, Set<F> waiting) {
        List<F> sorted = new ArrayList<>();
        for (F file : added) {
            if (isFlushed.test(file) && !known.test(file)) {
                waiting.add(file);
            } else {
                sorted.add(file);
            }
        }
        return sorted;
    }

    @Override
    public synchronized void removeSSTable(SSTableReader removed) {
        if (!waiting.remove(removed)) {
            super.removeSSTable(removed);
        }
    }

    @Override
    public synchronized void replaceSSTables(
            Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        List<SSTableReader> known = removed.stream()
                .filter(file -> !waiting.remove(file)).collect(Collectors.toList());
        if (known.isEmpty()) {
            addSSTables(added);
        } else {
            super.replaceSSTables(known, sorted(added));
        }
    }

    @Override
    public synchronized void metadataChanged(StatsMetadata before, SSTableReader file) {
        if (waiting.remove(file)) {
            addSSTable(file);
        } else {
            super.metadataChanged(before, file);
        }
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables() {
        Set<SSTableReader> all = new LinkedHashSet<>(super.getSSTables());
        all.addAll(waiting);
        return all;
    }

    @Override
    public ScannerList getScanners(
            Collection<SSTableReader> files, Collection<Range<Token>> ranges) {
        List<SSTableReader> alone;
        synchronized (this) {
            alone = files.stream().filter(waiting::contains).collect(Collectors.toList());
        }
        List<SSTableReader> others = new ArrayList<>(files);
        others.removeAll(alone);
        List<ISSTableScanner> scanners = new ArrayList<>();
        try {
            alone.forEach(file -> scanners.add(file.getScanner(ranges)));
            scanners.addAll(super.getScanners(others, ranges).scanners);
        } catch (Throwable failure) {
            ISSTableScanner.closeAllAndPropagate(scanners, failure);
        }
        return new ScannerList(scanners);
    }
}
