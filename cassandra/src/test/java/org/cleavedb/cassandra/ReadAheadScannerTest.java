package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.partitions.AbstractUnfilteredPartitionIterator;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.ISSTableScanner;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 60, unit = TimeUnit.SECONDS)
class ReadAheadScannerTest {
    private static final int SMALL = 10;
    private static TableMetadata table;

    @BeforeAll
    static void prepareCassandra() {
        DatabaseDescriptor.clientInitialization();
        table = TableMetadata.builder("k", "t").partitioner(Murmur3Partitioner.instance)
                .addPartitionKeyColumn("id", Int32Type.instance)
                .addClusteringColumn("c", Int32Type.instance)
                .addRegularColumn("v", BytesType.instance).build();
    }

    /** A scanner of given partitions. */
    private static class Fake extends AbstractUnfilteredPartitionIterator
            implements ISSTableScanner {
        final Iterator<PartitionUpdate> partitions;
        boolean closed;

        Fake(List<PartitionUpdate> partitions) {
            this.partitions = partitions.iterator();
        }

        @Override
        public boolean hasNext() {
            return partitions.hasNext();
        }

        @Override
        public UnfilteredRowIterator next() {
            return partitions.next().unfilteredIterator();
        }

        @Override
        public void close() {
            closed = true;
        }

        @Override
        public TableMetadata metadata() {
            return table;
        }

        @Override
        public long getLengthInBytes() {
            return 3;
        }

        @Override
        public long getCompressedLengthInBytes() {
            return 2;
        }

        @Override
        public long getCurrentPosition() {
            return 0;
        }

        @Override
        public long getBytesScanned() {
            return 1;
        }

        @Override
        public Set<SSTableReader> getBackingSSTables() {
            return Set.of();
        }
    }

    private static PartitionUpdate partition(int id, int rows, int bytes) {
        PartitionUpdate.SimpleBuilder partition = PartitionUpdate.simpleBuilder(table, id);
        partition.timestamp(1);
        for (int row = 0; row < rows; row++) {
            partition.row(row).add("v", ByteBuffer.allocate(bytes));
        }
        return partition.build();
    }

    private static List<PartitionUpdate> partitions(int rows, int bytes, Integer... ids) {
        return Arrays.stream(ids).map(id -> partition(id, rows, bytes))
                .sorted(Comparator.comparing(PartitionUpdate::partitionKey))
                .collect(Collectors.toList());
    }

    private static List<String> contents(ISSTableScanner scanner) {
        List<String> found = new ArrayList<>();
        while (scanner.hasNext()) {
            try (UnfilteredRowIterator partition = scanner.next()) {
                int rows = 0;
                while (partition.hasNext()) {
                    assertTrue(partition.next().isRow());
                    rows++;
                }
                found.add(id(partition.partitionKey()) + ":" + rows);
            }
        }
        return found;
    }

    private static int id(DecoratedKey key) {
        return Int32Type.instance.compose(key.getKey());
    }

    private static List<String> inOrder(int rows, Integer... ids) {
        return partitions(1, 1, ids).stream().map(partition ->
                id(partition.partitionKey()) + ":" + rows).collect(Collectors.toList());
    }

    @Test
    void filesOfASideAreMergedInOrder() {
        Fake one = new Fake(partitions(2, SMALL, 1, 3, 5));
        Fake other = new Fake(partitions(2, SMALL, 2, 3, 4));
        try (ISSTableScanner side = ReadAheadScanner.of(table, List.of(one, other))) {
            assertEquals(inOrder(2, 1, 2, 3, 4, 5), contents(side));
            assertEquals(6, side.getLengthInBytes());
            assertEquals(2, side.getBytesScanned());
        }
        assertTrue(one.closed && other.closed);
    }

    @Test
    void morePartitionsThanFitInMemoryAreAllSeen() {
        int bytes = 100_000;
        Integer[] ids = new Integer[200];
        Arrays.setAll(ids, id -> id);
        try (ISSTableScanner side =
                ReadAheadScanner.of(table, List.of(new Fake(partitions(1, bytes, ids))))) {
            assertEquals(inOrder(1, ids), contents(side));
        }
    }

    @Test
    void aPartitionLargerThanItsHeadIsReadToTheEnd() {
        int rows = (int) (4 * PrefetchedPartition.HEAD_BYTES / 100_000);
        try (ISSTableScanner side =
                ReadAheadScanner.of(table, List.of(new Fake(partitions(rows, 100_000, 1, 2, 3))))) {
            assertEquals(inOrder(rows, 1, 2, 3), contents(side));
        }
    }

    @Test
    void aLargePartitionMayBeLeftUnread() {
        int rows = (int) (4 * PrefetchedPartition.HEAD_BYTES / 100_000);
        Fake file = new Fake(partitions(rows, 100_000, 1, 2));
        try (ISSTableScanner side = ReadAheadScanner.of(table, List.of(file))) {
            assertTrue(side.hasNext());
            side.next();
            assertTrue(side.hasNext());
            side.next();
            assertFalse(side.hasNext());
        }
        assertTrue(file.closed);
    }

    @Test
    void closingEarlyEndsTheReader() {
        int rows = (int) (4 * PrefetchedPartition.HEAD_BYTES / 100_000);
        for (int readFirst = 0; readFirst < 2; readFirst++) {
            Fake file = new Fake(partitions(rows, 100_000, 1, 2, 3, 4));
            ISSTableScanner side = ReadAheadScanner.of(table, List.of(file));
            if (readFirst == 1) {
                side.next();
            }
            side.close();
            side.close();
            assertTrue(file.closed);
        }
    }

    /** Without this, the SSTables would stay in use when the machine has no thread left. */
    @Test
    void aReaderThatCannotStartLeavesNothingOpen() {
        Fake one = new Fake(partitions(1, SMALL, 1));
        Fake other = new Fake(partitions(1, SMALL, 2));
        assertEquals("no thread", assertThrows(IllegalStateException.class, () ->
                ReadAheadScanner.of(table, List.of(one, other), reader -> {
                    throw new IllegalStateException("no thread");
                })).getMessage());
        assertTrue(one.closed && other.closed);
    }

    @Test
    void aFailureOfTheReaderReachesTheConsumer() {
        Fake broken = new Fake(partitions(1, SMALL, 1, 2)) {
            @Override
            public UnfilteredRowIterator next() {
                throw new IllegalStateException("corrupt");
            }
        };
        try (ISSTableScanner side = ReadAheadScanner.of(table, List.of(broken))) {
            assertEquals("corrupt",
                    assertThrows(IllegalStateException.class, side::hasNext).getMessage());
        }
    }

    /** Each side's first partition comes only once the other side is being read too. */
    @Test
    void bothSidesAreReadAtTheSameTime() {
        CountDownLatch reading = new CountDownLatch(2);
        class Meeting extends Fake {
            Meeting(int id) {
                super(partitions(1, SMALL, id));
            }

            @Override
            public UnfilteredRowIterator next() {
                reading.countDown();
                try {
                    reading.await();
                } catch (InterruptedException ended) {
                    throw new IllegalStateException(ended);
                }
                return super.next();
            }
        }
        try (ISSTableScanner primary = ReadAheadScanner.of(table, List.of(new Meeting(1)));
                ISSTableScanner redundant = ReadAheadScanner.of(table, List.of(new Meeting(2)))) {
            assertEquals(List.of("1:1"), contents(primary));
            assertEquals(List.of("2:1"), contents(redundant));
        }
    }
}
