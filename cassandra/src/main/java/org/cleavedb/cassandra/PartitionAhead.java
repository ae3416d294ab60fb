package org.cleavedb.cassandra;

import java.util.ArrayDeque;
import java.util.concurrent.CountDownLatch;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;

/**
 * A partition that was read before anybody asked. Of a large one only the head is in memory; the
 * rest stays in the files, is read by whoever consumes it, and until that is done the reader that
 * found it must leave the files alone.
 */
final class PartitionAhead extends AbstractUnfilteredRowIterator {
    /** How much of a partition is held. */
    static final long HEAD = 1 << 20;
    /** About what a row or marker takes besides its values. */
    private static final long OVERHEAD = 64;

    private final ArrayDeque<Unfiltered> head = new ArrayDeque<>();
    private final UnfilteredRowIterator source;
    private final boolean hasRest;
    private final CountDownLatch over = new CountDownLatch(1);
    private long bytes = OVERHEAD;

    private PartitionAhead(UnfilteredRowIterator source) {
        super(source.metadata(), source.partitionKey(), source.partitionLevelDeletion(),
                source.columns(), source.staticRow(), source.isReverseOrder(), source.stats());
        this.source = source;
        while (bytes < HEAD && source.hasNext()) {
            Unfiltered next = source.next();
            head.add(next);
            bytes += OVERHEAD + (next.isRow() ? ((Row) next).dataSize() : 0);
        }
        hasRest = bytes >= HEAD && source.hasNext();
        if (!hasRest) {
            source.close();
            over.countDown();
        }
    }

    /** Takes over the source, which is closed once it has been read. */
    static PartitionAhead read(UnfilteredRowIterator source) {
        try {
            return new PartitionAhead(source);
        } catch (Throwable failure) {
            source.close();
            throw failure;
        }
    }

    /** What is in memory. */
    long bytes() {
        return bytes;
    }

    /** Waits until somebody else has read the rest; false if this thread should end. */
    boolean awaitRest() {
        try {
            over.await();
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
        if (over.getCount() > 0) {
            source.close();
            over.countDown();
        }
    }
}
