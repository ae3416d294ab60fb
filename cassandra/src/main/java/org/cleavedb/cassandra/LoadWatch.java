package org.cleavedb.cassandra;

import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.locator.AbstractReplicationStrategy;
import org.apache.cassandra.locator.IEndpointSnitch;
import org.apache.cassandra.locator.NetworkTopologyStrategy;
import org.apache.cassandra.locator.SimpleSnitch;
import org.apache.cassandra.metrics.ClientRequestsMetricsHolder;

/**
 * Cassandra's own counters of a table's load, as differences from look to look. What is read,
 * scanned and written here is counted per table; at which consistency level is counted only for
 * all tables together, and where the request came in, so other coordinators are taken to be like
 * this one.
 */
final class LoadWatch {
    private final Map<ConsistencyLevel, Long> readsSeen = new EnumMap<>(ConsistencyLevel.class);
    private long writesSeen;
    private long readsHereSeen;
    private long scansSeen;
    private long lookedAt;

    /** From now on. */
    LoadWatch(ColumnFamilyStore table) {
        look(table, 1);
    }

    double secondsSinceLook() {
        return (double) (System.nanoTime() - lookedAt) / TimeUnit.SECONDS.toNanos(1);
    }

    /** What was done since the last look. */
    OrderingRule.Load look(ColumnFamilyStore table, double redundantShareOfWrites) {
        lookedAt = System.nanoTime();
        long writes = table.metric.writeLatency.latency.getCount();
        long reads = table.metric.readLatency.latency.getCount();
        long scans = table.metric.rangeLatency.latency.getCount();
        OrderingRule.Load load = new OrderingRule.Load(writes - writesSeen, reads - readsHereSeen,
                scans - scansSeen, redundantShareOfWrites, redundantShareOfReads(table));
        writesSeen = writes;
        readsHereSeen = reads;
        scansSeen = scans;
        return load;
    }

    private double redundantShareOfReads(ColumnFamilyStore table) {
        AbstractReplicationStrategy replication = table.keyspace.getReplicationStrategy();
        CopiesAsked copies = new CopiesAsked(copiesPerPrimary(replication), asksPrimaryFirst());
        ClientRequestsMetricsHolder.readMetricsMap.forEach((level, requests) -> {
            long now = requests.latency.getCount();
            Long before = readsSeen.put(level, now);
            long reads = before == null ? 0 : now - before;
            if (reads > 0) {
                copies.add(reads, copiesAskedAt(level, replication));
            }
        });
        return copies.redundantShare();
    }

    /** Each data centre has primaries of its own, and readers mostly stay in theirs. */
    private static int copiesPerPrimary(AbstractReplicationStrategy replication) {
        return replication instanceof NetworkTopologyStrategy
                ? ((NetworkTopologyStrategy) replication)
                        .getReplicationFactor(DatabaseDescriptor.getLocalDataCenter()).allReplicas
                : replication.getReplicationFactor().allReplicas;
    }

    /** Cassandra has no answer for the levels that are not for reads of several nodes. */
    private static int copiesAskedAt(
            ConsistencyLevel level, AbstractReplicationStrategy replication) {
        return level == ConsistencyLevel.NODE_LOCAL ? 1 : level.blockFor(replication);
    }

    /** Under the dynamic snitch, whoever is quickest is asked first. */
    private static boolean asksPrimaryFirst() {
        IEndpointSnitch snitch = DatabaseDescriptor.getEndpointSnitch();
        return snitch instanceof SimpleSnitch || snitch instanceof PrimaryFirstSnitch;
    }
}
