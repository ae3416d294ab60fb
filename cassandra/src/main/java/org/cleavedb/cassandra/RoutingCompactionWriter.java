package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.compaction.writers.CompactionAwareWriter;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableRewriter;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;

/**
 * A compaction writer that writes each partition to an SSTable of its place. The SSTables of many
 * places are open at the same time, and all belong to one transaction. One sequential pass over the
 * input thus splits segments into runs, merges the runs of a group, or separates a mixed SSTable.
 *
 * <p>The rewriter of the superclass never gets an SSTable; it only finishes the transaction. The
 * rewriters of the places share that transaction as a {@link SharedTransaction}, which leaves its
 * last steps to the superclass.
 */
final class RoutingCompactionWriter extends CompactionAwareWriter {
    /** Keys added to each estimate, which counts index samples of this distance. */
    private static final int EXTRA_KEYS = 128;

    private final Placement placement;
    private final Consumer<List<SSTableReader>> onFinish;
    private final Map<Integer, PlaceWriter> writers = new TreeMap<>();
    private PlaceWriter current;

    RoutingCompactionWriter(ColumnFamilyStore table, Directories directories,
            LifecycleTransaction transaction, Set<SSTableReader> inputs, Placement placement,
            Consumer<List<SSTableReader>> onFinish) {
        super(table, directories, transaction, inputs, false);
        this.placement = placement;
        this.onFinish = onFinish;
    }

    /** The writer of one place: of one SSTable, or of one per disk in sequence. */
    private final class PlaceWriter {
        final int place;
        final SSTableRewriter rewriter;
        Directories.DataDirectory directory;

        PlaceWriter(int place) {
            this.place = place;
            rewriter = SSTableRewriter.constructWithoutEarlyOpening(
                    new SharedTransaction(txn), false, maxAge);
        }

        void switchTo(Directories.DataDirectory wanted, DecoratedKey key) {
            if (!wanted.equals(directory)) {
                directory = wanted;
                rewriter.switchWriter(sstableWriter(wanted, key));
            }
        }

        /** Releases some three megabytes of buffers; the SSTable is finished with all others. */
        void release() {
            if (directory != null) {
                directory = null;
                rewriter.switchWriter(null);
            }
        }
    }

    @Override
    protected void maybeSwitchWriter(DecoratedKey key) {
        int place = placement.placeOf(key.getToken());
        if (current == null || current.place != place) {
            releasePast(key.getToken());
            current = writers.computeIfAbsent(place, PlaceWriter::new);
        }
        currentDirectory = directoryFor(key);
        current.switchTo(currentDirectory, key);
    }

    private void releasePast(Token token) {
        writers.values().stream().filter(writer -> placement.isPast(writer.place, token))
                .forEach(PlaceWriter::release);
    }

    private Directories.DataDirectory directoryFor(DecoratedKey key) {
        Directories.DataDirectory byKey = cfs.getDiskBoundaries().getCorrectDiskForKey(key);
        if (byKey != null) {
            return byKey;
        }
        return currentDirectory != null
                ? currentDirectory
                : getWriteDirectory(nonExpiredSSTables, getExpectedWriteSize());
    }

    @Override
    protected SSTableWriter sstableWriter(
            Directories.DataDirectory directory, DecoratedKey nextKey) {
        SSTableWriter writer = super.sstableWriter(directory, nextKey);
        Role role = Role.of(placement, current.place);
        RoleTags.write(writer.descriptor, new RoleTag(role, placement.digest()));
        return writer;
    }

    @Override
    protected SSTableWriter.Builder<?, ?> newWriterBuilder(Descriptor descriptor) {
        SSTableWriter.Builder<?, ?> builder = super.newWriterBuilder(descriptor);
        builder.addComponents(RoleTags.components());
        return builder;
    }

    @Override
    protected long sstableKeyCount() {
        long keys = EXTRA_KEYS;
        for (SSTableReader input : nonExpiredSSTables) {
            keys += input.estimatedKeysForRanges(placement.rangesOf(current.place));
        }
        return keys;
    }

    /** Never called, since {@link #maybeSwitchWriter} does not call it. */
    @Override
    protected boolean shouldSwitchWriterInCurrentLocation(DecoratedKey key) {
        return false;
    }

    @Override
    protected boolean realAppend(UnfilteredRowIterator partition) {
        return current.rewriter.append(partition) != null;
    }

    @Override
    protected void doPrepare() {
        writers.values().forEach(writer -> writer.rewriter.prepareToCommit());
        super.doPrepare();
    }

    @Override
    protected Throwable doCommit(Throwable accumulate) {
        Throwable failure = accumulate;
        for (PlaceWriter writer : writers.values()) {
            failure = writer.rewriter.commit(failure);
        }
        return super.doCommit(failure);
    }

    @Override
    protected Throwable doAbort(Throwable accumulate) {
        Throwable failure = accumulate;
        for (PlaceWriter writer : writers.values()) {
            failure = writer.rewriter.abort(failure);
        }
        return super.doAbort(failure);
    }

    @Override
    protected Throwable doPostCleanup(Throwable accumulate) {
        writers.values().forEach(writer -> writer.rewriter.close());
        return super.doPostCleanup(accumulate);
    }

    @Override
    public Collection<SSTableReader> finish() {
        super.finish();
        List<SSTableReader> written = new ArrayList<>();
        writers.values().forEach(writer -> written.addAll(writer.rewriter.finished()));
        onFinish.accept(written);
        return written;
    }
}
