package org.cleavedb.cassandra;

import java.util.List;
import java.util.function.BiConsumer;
import org.apache.cassandra.db.marshal.DoubleType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.virtual.AbstractVirtualTable;
import org.apache.cassandra.db.virtual.SimpleDataSet;
import org.apache.cassandra.db.virtual.VirtualKeyspace;
import org.apache.cassandra.db.virtual.VirtualKeyspaceRegistry;
import org.apache.cassandra.dht.LocalPartitioner;
import org.apache.cassandra.schema.TableMetadata;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The virtual tables that show the JMX attributes in CQL. {@code SELECT * FROM
 * cleavedb_views.replica_tables} (or {@code replica_sides}, {@code replica_groups}) shows the state
 * of the node that coordinates the query.
 *
 * <p>Cassandra has no extension point for virtual tables. They are registered when a node first
 * loads the strategy: at its start, or with the CREATE or ALTER that first names the class. The
 * keyspace does not exist before.
 */
final class ReplicaVirtualTables {
    static final String KEYSPACE = "cleavedb_views";
    private static final Logger LOG = LoggerFactory.getLogger(ReplicaVirtualTables.class);

    private ReplicaVirtualTables() {
    }

    /**
     * Registers the tables; it may be called more than once. A failure is only logged, since a node
     * must start and serve its data without these tables, too.
     */
    static void register() {
        try {
            VirtualKeyspaceRegistry.instance.register(new VirtualKeyspace(
                    KEYSPACE, List.of(tables(), sides(), groups())));
        } catch (RuntimeException | LinkageError failure) {
            LOG.warn("The virtual tables in {} are unavailable, as this release of Cassandra "
                    + "differs from the tested one ({}). JMX has the same numbers", KEYSPACE,
                    failure.toString());
        }
    }

    private static View tables() {
        return new View(builder("replica_tables", "progress of each table, and bytes written")
                .addRegularColumn("ordering", Int32Type.instance)
                .addRegularColumn("ordering_wanted", Int32Type.instance)
                .addRegularColumn("redundant_share_of_reads", DoubleType.instance)
                .addRegularColumn("files_to_inspect", Int32Type.instance)
                .addRegularColumn("mixed_files", Int32Type.instance)
                .addRegularColumn("bytes_to_resplit", LongType.instance)
                .addRegularColumn("resplit_progress", DoubleType.instance)
                .addRegularColumn("primary_bytes_flushed", LongType.instance)
                .addRegularColumn("redundant_bytes_flushed", LongType.instance)
                .addRegularColumn("primary_bytes_compacted", LongType.instance)
                .addRegularColumn("bytes_split", LongType.instance)
                .addRegularColumn("bytes_merged", LongType.instance)
                .addRegularColumn("bytes_separated", LongType.instance)
                .build(), (rows, table) -> {
                    ReplicaDecouplingMXBean bean = new ReplicaDecouplingBean(table);
                    rows.row(table.keyspace, table.table)
                            .column("ordering", bean.getOrdering())
                            .column("ordering_wanted", bean.getOrderingWanted())
                            .column("redundant_share_of_reads", bean.getRedundantShareOfReads())
                            .column("files_to_inspect", bean.getFilesToInspect())
                            .column("mixed_files", bean.getMixedFiles())
                            .column("bytes_to_resplit", bean.getBytesToResplit())
                            .column("resplit_progress", bean.getResplitProgress())
                            .column("primary_bytes_flushed", bean.getPrimaryBytesFlushed())
                            .column("redundant_bytes_flushed", bean.getRedundantBytesFlushed())
                            .column("primary_bytes_compacted", bean.getPrimaryBytesCompacted())
                            .column("bytes_split", bean.getBytesSplit())
                            .column("bytes_merged", bean.getBytesMerged())
                            .column("bytes_separated", bean.getBytesSeparated());
                });
    }

    private static View sides() {
        return new View(builder("replica_sides", "files, bytes and reads of each side of a table")
                .addClusteringColumn("side", UTF8Type.instance)
                .addRegularColumn("files", Int32Type.instance)
                .addRegularColumn("bytes", LongType.instance)
                .addRegularColumn("files_read", LongType.instance)
                .build(), (rows, table) -> {
                    ReplicaDecouplingMXBean bean = new ReplicaDecouplingBean(table);
                    side(rows, table, "primary", bean.getPrimaryFiles(),
                            bean.getPrimaryBytes(), bean.getPrimaryFilesRead());
                    side(rows, table, "segments", bean.getSegments(),
                            bean.getSegmentBytes(), bean.getSegmentsRead());
                    side(rows, table, "runs", bean.getRuns(),
                            bean.getRunBytes(), bean.getRunsRead());
                    side(rows, table, "other",
                            bean.getFilesToInspect() + bean.getMixedFiles(),
                            bean.getBytesToResplit(), bean.getOtherFilesRead());
                });
    }

    private static void side(SimpleDataSet rows, TableMetrics table, String name, int files,
            long bytes, long filesRead) {
        rows.row(table.keyspace, table.table, name)
                .column("files", files)
                .column("bytes", bytes)
                .column("files_read", filesRead);
    }

    private static View groups() {
        return new View(builder("replica_groups", "the runs of each group of redundant copies")
                .addClusteringColumn("group_name", UTF8Type.instance)
                .addRegularColumn("runs", Int32Type.instance)
                .build(), (rows, table) ->
                        new ReplicaDecouplingBean(table).getRunsByGroup().forEach((group, runs) ->
                                rows.row(table.keyspace, table.table, group)
                                        .column("runs", runs)));
    }

    private static TableMetadata.Builder builder(String name, String comment) {
        return TableMetadata.builder(KEYSPACE, name)
                .comment(comment)
                .kind(TableMetadata.Kind.VIRTUAL)
                .partitioner(new LocalPartitioner(UTF8Type.instance))
                .addPartitionKeyColumn("keyspace_name", UTF8Type.instance)
                .addClusteringColumn("table_name", UTF8Type.instance);
    }

    /** A virtual table to which each table that uses the strategy adds rows. */
    private static final class View extends AbstractVirtualTable {
        private final BiConsumer<SimpleDataSet, TableMetrics> rowsOfTable;

        View(TableMetadata metadata, BiConsumer<SimpleDataSet, TableMetrics> rowsOfTable) {
            super(metadata);
            this.rowsOfTable = rowsOfTable;
        }

        @Override
        public DataSet data() {
            SimpleDataSet rows = new SimpleDataSet(metadata());
            TableMetrics.inUse().forEach(table -> rowsOfTable.accept(rows, table));
            return rows;
        }
    }
}
