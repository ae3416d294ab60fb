package org.cleavedb.cassandra;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.ToLongFunction;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterators;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;

/**
 * A scanner for the validation of one side of a table by a repair. A thread of its own reads and
 * merges the SSTables of that side, ahead of the consumer, which hashes the rows. With one scanner
 * for the primary side and one for the redundant side, both are read at the same time, and a third
 * thread hashes.
 *
 * <p>Ranges of both sides alternate in the ring. While the consumer hashes a range of one side, the
 * other side's reader fetches its next range.
 *
 * <p>Memory: a scanner holds {@link #MAX_BYTES_AHEAD} and one partition, of which at most {@link
 * PrefetchedPartition#HEAD_BYTES}. The consumer reads the rest of a larger partition itself, and
 * the reader waits for it.
 *
 * <p>Locks: this object's monitor guards the queue. No disk is read under it.
 */
final class ReadAheadScanner implements ISSTableScanner {
    private static final long MAX_BYTES_AHEAD = 4 << 20;
    private static final ExecutorService READERS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "ReplicaDecoupling-ReadAhead");
        thread.setDaemon(true);
        return thread;
    });

    private final TableMetadata table;
    private final List<ISSTableScanner> scanners;
    private final UnfilteredPartitionIterator merged;
    private final ArrayDeque<PrefetchedPartition> ahead = new ArrayDeque<>();
    private long bytesAhead;
    private PrefetchedPartition current;
    private boolean done;
    private boolean closed;
    private Throwable failure;
    /** The bytes scanned, as a copy, since only the reader may ask the scanners. */
    private volatile long scanned;

    private ReadAheadScanner(TableMetadata table, List<ISSTableScanner> scanners) {
        this.table = table;
        this.scanners = scanners;
        this.merged = UnfilteredPartitionIterators.merge(scanners, null);
    }

    /**
     * Starts to read ahead.
     *
     * @param scanners at least one; they are closed with the result, or at once if this fails
     */
    static ISSTableScanner of(TableMetadata table, List<ISSTableScanner> scanners) {
        return of(table, scanners, READERS);
    }

    static ISSTableScanner of(
            TableMetadata table, List<ISSTableScanner> scanners, Executor readers) {
        try {
            ReadAheadScanner side = new ReadAheadScanner(table, scanners);
            readers.execute(side::readAll);
            return side;
        } catch (RuntimeException | Error noThread) {
            ISSTableScanner.closeAllAndPropagate(scanners, noThread);
            throw noThread;
        }
    }

    // Methods of the reader.

    private void readAll() {
        Throwable problem = null;
        try {
            while (hasRoom() && merged.hasNext()) {
                PrefetchedPartition partition = PrefetchedPartition.read(merged.next());
                scanned = sum(ISSTableScanner::getBytesScanned);
                put(partition);
                if (!partition.awaitRest()) {
                    break;
                }
            }
        } catch (Throwable thrown) {
            // The consumer throws it in hasNext: Cassandra handles it, a corrupt SSTable included.
            problem = thrown;
        }
        synchronized (this) {
            failure = problem;
            done = true;
            notifyAll();
        }
    }

    /** Waits for room in the queue; false if the scanner was closed. */
    private synchronized boolean hasRoom() throws InterruptedException {
        while (bytesAhead >= MAX_BYTES_AHEAD && !closed) {
            wait();
        }
        return !closed;
    }

    private synchronized void put(PrefetchedPartition partition) {
        if (closed) {
            partition.close();
            return;
        }
        ahead.add(partition);
        bytesAhead += partition.bytes();
        notifyAll();
    }

    // Methods of the consumer.

    @Override
    public synchronized boolean hasNext() {
        finishCurrent();
        awaitReader(false);
        if (ahead.isEmpty() && failure != null) {
            throw failure instanceof RuntimeException ? (RuntimeException) failure
                    : new IllegalStateException("The SSTables of " + table + " cannot be read "
                            + "ahead: " + failure, failure);
        }
        return !ahead.isEmpty();
    }

    @Override
    public synchronized UnfilteredRowIterator next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        current = ahead.remove();
        bytesAhead -= current.bytes();
        assert bytesAhead >= 0 : bytesAhead;
        notifyAll();
        return current;
    }

    /** Closes the current partition, which the consumer may not have read to its end. */
    private void finishCurrent() {
        if (current != null) {
            current.close();
            current = null;
        }
    }

    /**
     * Waits for a partition, or for the end of the reader.
     *
     * @param gone true to wait for the end only
     */
    private void awaitReader(boolean gone) {
        boolean interrupted = false;
        while (!done && (gone || ahead.isEmpty())) {
            try {
                wait();
            } catch (InterruptedException later) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Closes the scanners once the reader has ended, as it uses them until then. */
    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            finishCurrent();
            ahead.forEach(PrefetchedPartition::close);
            ahead.clear();
            notifyAll();
            awaitReader(true);
        }
        merged.close();
    }

    @Override
    public TableMetadata metadata() {
        return table;
    }

    @Override
    public long getLengthInBytes() {
        return sum(ISSTableScanner::getLengthInBytes);
    }

    @Override
    public long getCompressedLengthInBytes() {
        return sum(ISSTableScanner::getCompressedLengthInBytes);
    }

    @Override
    public long getCurrentPosition() {
        return scanned;
    }

    @Override
    public long getBytesScanned() {
        return scanned;
    }

    @Override
    public Set<SSTableReader> getBackingSSTables() {
        Set<SSTableReader> files = new HashSet<>();
        scanners.stream().map(ISSTableScanner::getBackingSSTables).forEach(files::addAll);
        return files;
    }

    private long sum(ToLongFunction<ISSTableScanner> part) {
        return scanners.stream().mapToLong(part).sum();
    }
}
