package org.cleavedb.cassandra;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.SerializationHeader;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.SSTableWriter;
import org.apache.cassandra.io.sstable.metadata.MetadataCollector;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.schema.Tables;

/**
 * A table that is opened without a node, as Cassandra's offline tools open one. Its SSTables are
 * real files in a folder.
 */
final class OfflineTable implements AutoCloseable {
    final ColumnFamilyStore store;
    private final TableMetadata metadata;
    private final List<SSTableReader> opened = new ArrayList<>();

    OfflineTable(Path folder) {
        DatabaseDescriptor.clientInitialization(false);
        metadata = TableMetadata.builder("k", "t").partitioner(Murmur3Partitioner.instance)
                .addPartitionKeyColumn("id", Int32Type.instance).build();
        Keyspace keyspace = Keyspace.mockKS(KeyspaceMetadata.create(
                "k", KeyspaceParams.simple(1), Tables.of(metadata)));
        Directories directories = new Directories(metadata,
                Set.of(new Directories.DataDirectory(new File(folder))));
        store = ColumnFamilyStore.createColumnFamilyStore(keyspace, metadata.name,
                TableMetadataRef.forOfflineTools(metadata), directories, false, false, true);
    }

    /** Writes an SSTable of one partition, without a role tag, and opens it. */
    SSTableReader write(int id) {
        Descriptor descriptor = store.newSSTableDescriptor(
                store.getDirectories().getDirectoryForNewSSTables());
        PartitionUpdate deletion = PartitionUpdate.fullPartitionDelete(
                metadata, Int32Type.instance.decompose(id), 1, 1);
        try (LifecycleTransaction transaction =
                LifecycleTransaction.offline(OperationType.WRITE)) {
            SSTableWriter writer = descriptor.getFormat().getWriterFactory().builder(descriptor)
                    .setKeyCount(1)
                    .setTableMetadataRef(store.metadata)
                    .setMetadataCollector(new MetadataCollector(metadata.comparator))
                    .setSerializationHeader(SerializationHeader.makeWithoutStats(metadata))
                    .addDefaultComponents(List.of())
                    .setSecondaryIndexGroups(List.of())
                    .build(transaction, store);
            writer.append(deletion.unfilteredIterator());
            SSTableReader reader = writer.finish(true);
            opened.add(reader);
            transaction.finish();
            return reader;
        }
    }

    /** Writes such an SSTable and adds it to the table, so that operations can claim it. */
    SSTableReader writeLive(int id) {
        SSTableReader reader = write(id);
        store.getTracker().addInitialSSTables(List.of(reader));
        return reader;
    }

    @Override
    public void close() {
        opened.forEach(reader -> reader.selfRef().release());
    }
}
