package org.cleavedb.cassandra;

import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaChangeListener;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.ClientWarn;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A warning for operators who combine the strategy with transient replicas, with which copies have
 * no roles. Cassandra lets a strategy refuse the options of a table, but does not tell it the
 * keyspace at that time. It announces a schema change after it was made, in the thread of the
 * statement. So the client gets a warning with the result, and each node logs one.
 */
final class TransientReplicationWarning implements SchemaChangeListener {
    private static final Logger LOG = LoggerFactory.getLogger(TransientReplicationWarning.class);

    private TransientReplicationWarning() {
    }

    /**
     * Registers the warning; to be called once. A failure is only logged, since a node must start
     * without this warning, too.
     */
    static void register() {
        try {
            Schema.instance.registerListener(new TransientReplicationWarning());
        } catch (RuntimeException | LinkageError failure) {
            LOG.warn("There will be no warnings about transient replicas, as this release of "
                    + "Cassandra differs from the tested one ({})", failure.toString());
        }
    }

    @Override
    public void onAlterKeyspace(KeyspaceMetadata before, KeyspaceMetadata after) {
        List<String> ours = StreamSupport.stream(after.tables.spliterator(), false)
                .filter(TransientReplicationWarning::isOurs)
                .map(TableMetadata::toString).collect(Collectors.toList());
        if (hasTransientReplicas(after) && !hasTransientReplicas(before) && !ours.isEmpty()) {
            warn(String.join(", ", ours));
        }
    }

    @Override
    public void onCreateTable(TableMetadata table) {
        KeyspaceMetadata keyspace = Schema.instance.getKeyspaceMetadata(table.keyspace);
        if (isOurs(table) && keyspace != null && hasTransientReplicas(keyspace)) {
            warn(table.toString());
        }
    }

    @Override
    public void onAlterTable(TableMetadata before, TableMetadata after, boolean affectStatements) {
        if (!isOurs(before)) {
            onCreateTable(after);
        }
    }

    private static boolean isOurs(TableMetadata table) {
        return table.params.compaction.klass() == ReplicaDecouplingStrategy.class;
    }

    private static boolean hasTransientReplicas(KeyspaceMetadata keyspace) {
        return keyspace.createReplicationStrategy().hasTransientReplicas();
    }

    private static void warn(String tables) {
        String text = "With transient replicas, copies have no roles: "
                + "ReplicaDecouplingStrategy treats all copies of " + tables
                + " as primary ones, and saves nothing";
        LOG.warn(text);
        ClientWarn.instance.warn(text);
    }
}
