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
 * Tells whoever brings tables of ours and transient replicas together that copies have no roles
 * there. Cassandra lets a strategy refuse options of a table, but tells it nothing of the keyspace
 * then; it announces changes of the schema once they are made, in the thread of the statement. So
 * who made the statement gets a warning with the answer, and the log of each node has it, too.
 */
final class TransientReplicasNotice implements SchemaChangeListener {
    private static final Logger LOG = LoggerFactory.getLogger(TransientReplicasNotice.class);

    private TransientReplicasNotice() {
    }

    /** To be called once. Never fails: a node must not miss its data for a warning. */
    static void register() {
        try {
            Schema.instance.registerListener(new TransientReplicasNotice());
        } catch (RuntimeException | LinkageError failure) {
            LOG.warn("Nobody will be warned of transient replicas, as this release of Cassandra "
                    + "differs ({})", failure.toString());
        }
    }

    @Override
    public void onAlterKeyspace(KeyspaceMetadata before, KeyspaceMetadata after) {
        List<String> ours = StreamSupport.stream(after.tables.spliterator(), false)
                .filter(TransientReplicasNotice::isOurs)
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
                + "ReplicaDecouplingStrategy lays out all of " + tables
                + " as it does primary copies, and saves nothing";
        LOG.warn(text);
        ClientWarn.instance.warn(text);
    }
}
