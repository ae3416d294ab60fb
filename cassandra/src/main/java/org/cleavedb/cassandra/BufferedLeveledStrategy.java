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
 * A leveled compaction strategy for one part of a table's copies, which buffers flushed SSTables in
 * front of level 0.
 *
 * <p>Each compaction of level 0 rewrites all of level 1. With three copies, a flush brings a third
 * of its bytes to the primary ones. If each were compacted like the flush of a whole table, level 1
 * would be rewritten three times as often per byte. So flushed SSTables are merged with each other,
 * outside of the levels, until they hold as much as one flush of the whole table. The stock
 * strategy does the same with less than the size of one of its SSTables. In a simulation with
 * YCSB's skew and flushes of 2.5 SSTables, compactions write a sixth less.
 *
 * <p>Locks: this object's monitor guards the buffer. The stock strategy's manifest has a monitor of
 * its own, which is taken inside.
 *
 * <p>Invariant <b>each SSTable is either buffered or known to the stock strategy</b>, never both: a
 * compaction would remove it from one of them only.
 */
final class BufferedLeveledStrategy extends LeveledCompactionStrategy {
    /** The size of level 0, in SSTables, at which the stock strategy compacts it. */
    private static final int MAX_BUFFERED_FILES = 4;

    private final IntSupplier flushesToBuffer;
    private final Set<SSTableReader> buffered = new LinkedHashSet<>();

    /** @param flushesToBuffer see {@link PrimaryLayout#create} */
    BufferedLeveledStrategy(ColumnFamilyStore table, Map<String, String> options,
            IntSupplier flushesToBuffer) {
        super(table, options);
        this.flushesToBuffer = flushesToBuffer;
    }

    /** Tells whether buffered SSTables of these sizes should enter level 0. */
    static boolean isFull(List<Long> sizes, int flushesToBuffer, long fileSize) {
        long all = sizes.stream().mapToLong(Long::longValue).sum();
        // The smallest one is a flush; larger ones are flushes that were merged already.
        long flush = sizes.stream().mapToLong(Long::longValue).min().orElse(0);
        long enough = Math.min(flushesToBuffer * flush, MAX_BUFFERED_FILES * fileSize);
        return all > fileSize && all >= enough;
    }

    @Override
    public synchronized AbstractCompactionTask getNextBackgroundTask(long gcBefore) {
        List<Long> sizes = buffered.stream()
                .map(SSTableReader::onDiskLength).collect(Collectors.toList());
        // Only the stock strategy drops tombstones, and another flush may never come.
        if (isFull(sizes, flushesToBuffer.getAsInt(), getMaxSSTableBytes())
                || buffered.stream().anyMatch(file -> worthDroppingTombstones(file, gcBefore))) {
            release();
        }
        AbstractCompactionTask task = mergeBuffered(gcBefore);
        return task != null ? task : super.getNextBackgroundTask(gcBefore);
    }

    /** Merges the buffered SSTables into one, so that a read has to look into one of them only. */
    private AbstractCompactionTask mergeBuffered(long gcBefore) {
        List<SSTableReader> files = filterSuspectSSTables(buffered).stream()
                .limit(cfs.getMaximumCompactionThreshold()).collect(Collectors.toList());
        if (files.size() < 2) {
            return null;
        }
        // Null if one of them is busy; Cassandra then asks for a task again later.
        LifecycleTransaction transaction =
                cfs.getTracker().tryModify(files, OperationType.COMPACTION);
        return transaction == null ? null : new LeveledCompactionTask(
                cfs, transaction, 0, gcBefore, Long.MAX_VALUE, false);
    }

    private void release() {
        List<SSTableReader> enough = new ArrayList<>(buffered);
        buffered.clear();
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
        return super.getEstimatedRemainingTasks() + (buffered.size() < 2 ? 0 : 1);
    }

    @Override
    public synchronized void addSSTable(SSTableReader added) {
        addSSTables(List.of(added));
    }

    @Override
    public synchronized void addSSTables(Iterable<SSTableReader> added) {
        super.addSSTables(buffer(added));
    }

    /** Buffers SSTables of level 0; returns the others, which belong to the stock strategy. */
    private List<SSTableReader> buffer(Iterable<SSTableReader> added) {
        return buffer(added, file -> file.getSSTableLevel() == 0,
                file -> super.getSSTables().contains(file), buffered);
    }

    /**
     * Adds the flushed ones of some SSTables to the buffer and returns the others. Cassandra may
     * announce an SSTable twice. One that the stock strategy knows by then must not be buffered
     * again.
     *
     * @param isFlushed accepts SSTables of level 0
     * @param known accepts SSTables that the stock strategy knows
     */
    static <F> List<F> buffer(
            Iterable<F> added, Predicate<F> isFlushed, Predicate<F> known, Set<F> buffered) {
        List<F> rest = new ArrayList<>();
        for (F file : added) {
            if (isFlushed.test(file) && !known.test(file)) {
                buffered.add(file);
            } else {
                rest.add(file);
            }
        }
        return rest;
    }

    @Override
    public synchronized void removeSSTable(SSTableReader removed) {
        if (!buffered.remove(removed)) {
            super.removeSSTable(removed);
        }
    }

    @Override
    public synchronized void replaceSSTables(
            Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        List<SSTableReader> known = removed.stream()
                .filter(file -> !buffered.remove(file)).collect(Collectors.toList());
        if (known.isEmpty()) {
            addSSTables(added);
        } else {
            super.replaceSSTables(known, buffer(added));
        }
    }

    @Override
    public synchronized void metadataChanged(StatsMetadata before, SSTableReader file) {
        if (buffered.remove(file)) {
            addSSTable(file);
        } else {
            super.metadataChanged(before, file);
        }
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables() {
        Set<SSTableReader> all = new LinkedHashSet<>(super.getSSTables());
        all.addAll(buffered);
        return all;
    }

    @Override
    public ScannerList getScanners(
            Collection<SSTableReader> files, Collection<Range<Token>> ranges) {
        List<SSTableReader> alone;
        synchronized (this) {
            alone = files.stream().filter(buffered::contains).collect(Collectors.toList());
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
