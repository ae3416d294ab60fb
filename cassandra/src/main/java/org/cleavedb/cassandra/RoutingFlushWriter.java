package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableMultiWriter;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;
import org.apache.cassandra.schema.TableId;

/**
 * What a memtable is flushed to, and what received streams are written to: one file of primary
 * copies and one segment of the global log, in one transaction. A file is opened with its first
 * partition, so a side that gets none leaves nothing behind.
 */
final class RoutingFlushWriter implements SSTableMultiWriter {
    private final ColumnFamilyStore table;
    private final WriterRecipe recipe;
    private final Placement placement;
    private final TableMetrics metrics;

    private final List<SSTableWriter> writers = new ArrayList<>();
    private SSTableWriter primary;
    private SSTableWriter segment;

    RoutingFlushWriter(ColumnFamilyStore table, WriterRecipe recipe, Placement placement,
            TableMetrics metrics) {
        this.table = table;
        this.recipe = recipe;
        this.placement = placement;
        this.metrics = metrics;
    }

    @Override
    public void append(UnfilteredRowIterator partition) {
        int place = placement.placeOf(partition.partitionKey().getToken());
        if (place == Placement.PRIMARY) {
            if (primary == null) {
                primary = open(Role.PRIMARY);
            }
            primary.append(partition);
        } else {
            if (segment == null) {
                segment = open(Role.SEGMENT);
            }
            segment.append(partition);
        }
    }

    private SSTableWriter open(Role role) {
        Descriptor descriptor = writers.isEmpty()
                ? recipe.descriptor
                : table.newSSTableDescriptor(recipe.descriptor.directory,
                        recipe.descriptor.getFormat());
        SSTableWriter writer = recipe.open(table, descriptor, role, placement);
        writers.add(writer);
        RoleTags.write(descriptor, new RoleTag(role, placement.digest()));
        return writer;
    }

    /** A partition may turn out to be empty; a file without any must not be finished. */
    private void dropEmpty() {
        writers.removeIf(writer -> {
            if (writer.getFilePointer() > 0) {
                return false;
            }
            recipe.transaction.untrackNew(writer);
            writer.abort();
            return true;
        });
    }

    @Override
    public Collection<SSTableReader> finish(boolean openResult) {
        dropEmpty();
        List<SSTableReader> readers = new ArrayList<>();
        writers.forEach(writer -> readers.add(writer.finish(openResult)));
        return readers;
    }

    @Override
    public Collection<SSTableReader> finished() {
        List<SSTableReader> readers = new ArrayList<>();
        writers.forEach(writer -> readers.add(writer.finished()));
        return readers;
    }

    @Override
    public SSTableMultiWriter setOpenResult(boolean openResult) {
        writers.forEach(writer -> writer.setOpenResult(openResult));
        return this;
    }

    @Override
    public String getFilename() {
        return recipe.descriptor.fileFor(SSTableFormat.Components.DATA).absolutePath();
    }

    @Override
    public long getBytesWritten() {
        return writers.stream().mapToLong(SSTableWriter::getFilePointer).sum();
    }

    @Override
    public long getOnDiskBytesWritten() {
        return writers.stream().mapToLong(SSTableWriter::getEstimatedOnDiskBytesWritten).sum();
    }

    @Override
    public TableId getTableId() {
        return table.metadata().id;
    }

    @Override
    public void prepareToCommit() {
        dropEmpty();
        writers.forEach(SSTableWriter::prepareToCommit);
    }

    @Override
    public Throwable commit(Throwable accumulate) {
        Throwable failure = accumulate;
        for (SSTableWriter writer : writers) {
            (writer == primary ? metrics.primaryFlushed : metrics.redundantFlushed)
                    .add(writer.getEstimatedOnDiskBytesWritten());
            failure = writer.commit(failure);
        }
        return failure;
    }

    @Override
    public Throwable abort(Throwable accumulate) {
        Throwable failure = accumulate;
        for (SSTableWriter writer : writers) {
            recipe.transaction.untrackNew(writer);
            failure = writer.abort(failure);
        }
        return failure;
    }

    @Override
    public void close() {
        writers.forEach(SSTableWriter::close);
    }
}
