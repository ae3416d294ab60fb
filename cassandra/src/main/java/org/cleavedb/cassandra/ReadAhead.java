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
 * One side of a table as it is validated by a repair: its files are read and merged by a thread of
 * its own, some way ahead of whoever hashes the rows. With one of these for the primary side and
 * one for the redundant side, both are read at the same time, and the hashing is a third thread's.
 *
 * <p>The other side is hashed meanwhile whenever ranges of both kinds take turns in the ring; what
 * has been read ahead is then there already.
 *
 * <p>Memory: {@link #MOST_AHEAD} and one partition, of which at most {@link PartitionAhead#HEAD}
 * is held; the rest of a large one is read by the consumer, and the reader waits until it is done.
 *
 * <p>Locks: this object's monitor guards the queue; nothing is read from a disk under it.
 */
final class ReadAhead implements ISSTableScanner {
    private static final long MOST_AHEAD = 4 << 20;
    private static final ExecutorService READERS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "ReplicaDecoupling-ReadAhead");
        thread.setDaemon(true);
        return thread;
    });

    private final TableMetadata table;
    private final List<ISSTableScanner> scanners;
    private final UnfilteredPartitionIterator merged;
    private final ArrayDeque<PartitionAhead> ahead = new ArrayDeque<>();
    private long bytesAhead;
    private PartitionAhead current;
    private boolean done;
    private boolean closed;
    private Throwable failure;
    /** What the scanners say may be asked by their reader only. */
    private volatile long scanned;

    private ReadAhead(TableMetadata table, List<ISSTableScanner> scanners) {
        this.table = table;
        this.scanners = scanners;
        this.merged = UnfilteredPartitionIterators.merge(scanners, null);
    }

    /** @param scanners at least one; closed by the result, or if there is none */
    static ISSTableScanner of(TableMetadata table, List<ISSTableScanner> scanners) {
        return of(table, scanners, READERS);
    }

    static ISSTableScanner of(
            TableMetadata table, List<ISSTableScanner> scanners, Executor readers) {
        try {
            ReadAhead side = new ReadAhead(table, scanners);
            readers.execute(side::readAll);
            return side;
        } catch (RuntimeException | Error noThread) {
            ISSTableScanner.closeAllAndPropagate(scanners, noThread);
            throw noThread;
        }
    }

    // The reader's part.

    private void readAll() {
        Throwable problem = null;
        try {
            while (hasRoom() && merged.hasNext()) {
                PartitionAhead partition = PartitionAhead.read(merged.next());
                scanned = sum(ISSTableScanner::getBytesScanned);
                put(partition);
                if (!partition.awaitRest()) {
                    break;
                }
            }
        } catch (Throwable thrown) {
            // Whoever consumes gets it: it is one of Cassandra's own, such as a corrupt file.
            problem = thrown;
        }
        synchronized (this) {
            failure = problem;
            done = true;
            notifyAll();
        }
    }

    /** Waits for room; false if nobody wants more. */
    private synchronized boolean hasRoom() throws InterruptedException {
        while (bytesAhead >= MOST_AHEAD && !closed) {
            wait();
        }
        return !closed;
    }

    private synchronized void put(PartitionAhead partition) {
        if (closed) {
            partition.close();
            return;
        }
        ahead.add(partition);
        bytesAhead += partition.bytes();
        notifyAll();
    }

    // The consumer's part.

    @Override
    public synchronized boolean hasNext() {
        finishCurrent();
        awaitReader(false);
        if (ahead.isEmpty() && failure != null) {
            throw failure instanceof RuntimeException ? (RuntimeException) failure
                    : new IllegalStateException("reading ahead in " + table + " failed: "
                            + failure, failure);
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
        notifyAll();
        return current;
    }

    /** A consumer may go on without having read a partition to its end. */
    private void finishCurrent() {
        if (current != null) {
            current.close();
            current = null;
        }
    }

    /** Until there is a partition, or no more will come; or, at the end, until it has gone. */
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

    /** The files are in use until the reader has gone, so that is waited for. */
    @Override
    public void close() {
        synchronized (this) {
            closed = true;
            finishCurrent();
            ahead.forEach(PartitionAhead::close);
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
