package org.cleavedb.cassandra;

import java.util.ArrayDeque;
import java.util.concurrent.CountDownLatch;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;

/**
 * A partition that the reader of a {@link ReadAheadScanner} has read in advance. Only the head of a
 * large partition is in memory. The consumer reads the rest from the SSTables, and until then the
 * reader must not use their scanners, see {@link #awaitRest}.
 */
final class PrefetchedPartition extends AbstractUnfilteredRowIterator {
    /** The most bytes of a partition that are held in memory, plus one row. */
    static final long HEAD_BYTES = 1 << 20;
    /** The approximate bytes that a row or marker takes besides its values. */
    private static final long OVERHEAD = 64;

    private final ArrayDeque<Unfiltered> head = new ArrayDeque<>();
    private final UnfilteredRowIterator source;
    private final boolean hasRest;
    private final CountDownLatch consumed = new CountDownLatch(1);
    private long bytes = OVERHEAD;

    private PrefetchedPartition(UnfilteredRowIterator source) {
        super(source.metadata(), source.partitionKey(), source.partitionLevelDeletion(),
                source.columns(), source.staticRow(), source.isReverseOrder(), source.stats());
        this.source = source;
        while (bytes < HEAD_BYTES && source.hasNext()) {
            Unfiltered next = source.next();
            head.add(next);
            bytes += OVERHEAD + (next.isRow() ? ((Row) next).dataSize() : 0);
        }
        hasRest = bytes >= HEAD_BYTES && source.hasNext();
        if (!hasRest) {
            source.close();
            consumed.countDown();
        }
    }

    /** Reads the head of a partition and takes over its iterator, which is closed at its end. */
    static PrefetchedPartition read(UnfilteredRowIterator source) {
        try {
            return new PrefetchedPartition(source);
        } catch (Throwable failure) {
            source.close();
            throw failure;
        }
    }

    /** The approximate bytes in memory. */
    long bytes() {
        return bytes;
    }

    /** Waits until the consumer is done; false if this thread was interrupted and should end. */
    boolean awaitRest() {
        try {
            consumed.await();
            return true;
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    @Override
    protected Unfiltered computeNext() {
        if (!head.isEmpty()) {
            return head.remove();
        }
        return hasRest && source.hasNext() ? source.next() : endOfData();
    }

    @Override
    public void close() {
        if (consumed.getCount() > 0) {
            source.close();
            consumed.countDown();
        }
    }
}
