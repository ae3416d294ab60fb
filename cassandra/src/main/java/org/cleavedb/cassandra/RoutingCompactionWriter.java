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
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableRewriter;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;

/**
 * Writes each partition to a file of its place, all places open at once and in one transaction:
 * segments become runs, the runs of a group become one, a mixed file is taken apart. One sequential
 * pass over the input does it, whatever comes.
 *
 * <p>The rewriter of the superclass never gets a file. It stands for the transaction: the outlets'
 * own rewriters see a {@link SharedTransaction} that leaves the last steps to it.
 */
final class RoutingCompactionWriter extends CompactionAwareWriter {
    /** Estimates come from samples of this distance. */
    private static final int SPARE_KEYS = 128;

    private final Placement placement;
    private final Consumer<List<SSTableReader>> finished;
    private final Map<Integer, Outlet> outlets = new TreeMap<>();
    private Outlet current;

    RoutingCompactionWriter(ColumnFamilyStore table, Directories directories,
            LifecycleTransaction transaction, Set<SSTableReader> inputs, Placement placement,
            Consumer<List<SSTableReader>> finished) {
        super(table, directories, transaction, inputs, false);
        this.placement = placement;
        this.finished = finished;
    }

    /** The file, or files one after the other where the table has several disks, of one place. */
    private final class Outlet {
        final int place;
        final SSTableRewriter rewriter;
        Directories.DataDirectory directory;

        Outlet(int place) {
            this.place = place;
            rewriter = SSTableRewriter.constructWithoutEarlyOpening(
                    new SharedTransaction(txn), false, maxAge);
        }

        void turnTo(Directories.DataDirectory wanted, DecoratedKey key) {
            if (!wanted.equals(directory)) {
                directory = wanted;
                rewriter.switchWriter(sstableWriter(wanted, key));
            }
        }
    }

    @Override
    protected void maybeSwitchWriter(DecoratedKey key) {
        int place = placement.placeOf(key.getToken());
        if (current == null || current.place != place) {
            current = outlets.computeIfAbsent(place, Outlet::new);
        }
        currentDirectory = directoryFor(key);
        current.turnTo(currentDirectory, key);
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
        long keys = SPARE_KEYS;
        for (SSTableReader input : nonExpiredSSTables) {
            keys += input.estimatedKeysForRanges(placement.rangesOf(current.place));
        }
        return keys;
    }

    /** Never asked: {@link #maybeSwitchWriter} is replaced as a whole. */
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
        outlets.values().forEach(outlet -> outlet.rewriter.prepareToCommit());
        super.doPrepare();
    }

    @Override
    protected Throwable doCommit(Throwable accumulate) {
        Throwable failure = accumulate;
        for (Outlet outlet : outlets.values()) {
            failure = outlet.rewriter.commit(failure);
        }
        return super.doCommit(failure);
    }

    @Override
    protected Throwable doAbort(Throwable accumulate) {
        Throwable failure = accumulate;
        for (Outlet outlet : outlets.values()) {
            failure = outlet.rewriter.abort(failure);
        }
        return super.doAbort(failure);
    }

    @Override
    protected Throwable doPostCleanup(Throwable accumulate) {
        outlets.values().forEach(outlet -> outlet.rewriter.close());
        return super.doPostCleanup(accumulate);
    }

    @Override
    public Collection<SSTableReader> finish() {
        super.finish();
        List<SSTableReader> written = new ArrayList<>();
        outlets.values().forEach(outlet -> written.addAll(outlet.rewriter.finished()));
        finished.accept(written);
        return written;
    }
}
