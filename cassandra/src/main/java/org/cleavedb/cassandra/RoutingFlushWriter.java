package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTableMultiWriter;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;
import org.apache.cassandra.schema.TableId;

/**
 * A writer of flushes and received streams that separates primary copies from redundant ones. In
 * one transaction it writes one SSTable of primary copies and, per shard, one segment of the global
 * log; with {@code redundant: trees}, one SSTable per tree instead of segments. Each SSTable is
 * created with its first partition, so that no empty one is left behind.
 */
final class RoutingFlushWriter implements SSTableMultiWriter {
    private final ColumnFamilyStore table;
    private final SSTableWriterParams params;
    private final Placement placement;
    private final TableMetrics metrics;
    private final boolean treePerSource;
    /** The open writers by role and shard. */
    private final Map<List<Object>, SSTableWriter> writers = new LinkedHashMap<>();

    RoutingFlushWriter(ColumnFamilyStore table, SSTableWriterParams params, Placement placement,
            boolean treePerSource, TableMetrics metrics) {
        this.table = table;
        this.params = params;
        this.placement = placement;
        this.treePerSource = treePerSource;
        this.metrics = metrics;
    }

    @Override
    public void append(UnfilteredRowIterator partition) {
        Token token = partition.partitionKey().getToken();
        Role role = roleOf(placement.placeOf(token));
        int shard = role.kind == Role.Kind.SEGMENT ? placement.shardOf(token) : 0;
        List<Object> key = List.of(role, shard);
        SSTableWriter writer = writers.get(key);
        if (writer == null) {
            writer = open(role);
            writers.put(key, writer);
        }
        writer.append(partition);
    }

    private Role roleOf(int place) {
        return treePerSource || place == Placement.PRIMARY
                ? Role.of(placement, place) : Role.SEGMENT;
    }

    private SSTableWriter open(Role role) {
        Descriptor descriptor = writers.isEmpty()
                ? params.descriptor
                : table.newSSTableDescriptor(params.descriptor.directory,
                        params.descriptor.getFormat());
        boolean isFirst = writers.keySet().stream()
                .noneMatch(key -> ((Role) key.get(0)).kind == role.kind);
        SSTableWriter writer = params.open(table, descriptor, role, placement, isFirst);
        RoleTags.write(descriptor, new RoleTag(role, placement.digest()));
        return writer;
    }

    /** Aborts writers without data: partitions may be empty, and an empty SSTable is invalid. */
    private void dropEmpty() {
        writers.values().removeIf(writer -> {
            if (writer.getFilePointer() > 0) {
                return false;
            }
            params.transaction.untrackNew(writer);
            writer.abort();
            return true;
        });
    }

    /** Finishes a stream, whose bytes do not count as flushed. */
    @Override
    public Collection<SSTableReader> finish(boolean openResult) {
        dropEmpty();
        List<SSTableReader> readers = new ArrayList<>();
        writers.values().forEach(writer -> readers.add(writer.finish(openResult)));
        return readers;
    }

    @Override
    public Collection<SSTableReader> finished() {
        List<SSTableReader> readers = new ArrayList<>();
        writers.values().forEach(writer -> readers.add(writer.finished()));
        return readers;
    }

    @Override
    public SSTableMultiWriter setOpenResult(boolean openResult) {
        writers.values().forEach(writer -> writer.setOpenResult(openResult));
        return this;
    }

    @Override
    public String getFilename() {
        return params.descriptor.fileFor(SSTableFormat.Components.DATA).absolutePath();
    }

    @Override
    public long getBytesWritten() {
        return writers.values().stream().mapToLong(SSTableWriter::getFilePointer).sum();
    }

    @Override
    public long getOnDiskBytesWritten() {
        return writers.values().stream()
                .mapToLong(SSTableWriter::getEstimatedOnDiskBytesWritten).sum();
    }

    @Override
    public TableId getTableId() {
        return table.metadata().id;
    }

    @Override
    public void prepareToCommit() {
        dropEmpty();
        writers.values().forEach(SSTableWriter::prepareToCommit);
    }

    /** Finishes a flush. */
    @Override
    public Throwable commit(Throwable accumulate) {
        Throwable failure = accumulate;
        for (Map.Entry<List<Object>, SSTableWriter> file : writers.entrySet()) {
            boolean isPrimary = file.getKey().contains(Role.PRIMARY);
            (isPrimary ? metrics.primaryFlushed : metrics.redundantFlushed)
                    .add(file.getValue().getEstimatedOnDiskBytesWritten());
            failure = file.getValue().commit(failure);
        }
        return failure;
    }

    @Override
    public Throwable abort(Throwable accumulate) {
        Throwable failure = accumulate;
        for (SSTableWriter writer : writers.values()) {
            params.transaction.untrackNew(writer);
            failure = writer.abort(failure);
        }
        return failure;
    }

    @Override
    public void close() {
        writers.values().forEach(SSTableWriter::close);
    }
}
