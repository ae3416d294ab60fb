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
 * A sampler of a table's load: it reads Cassandra's counters and returns the differences between
 * two samples. Cassandra counts reads, scans and writes per table on each replica. It counts
 * consistency levels only on the coordinator, for all tables together. So other coordinators and
 * tables are assumed to be alike.
 */
final class LoadSampler {
    private final Map<ConsistencyLevel, Long> readsSeen = new EnumMap<>(ConsistencyLevel.class);
    private long writesSeen;
    private long readsHereSeen;
    private long scansSeen;
    private long sampledAt;

    /** Takes the first sample, which later ones are compared with. */
    LoadSampler(ColumnFamilyStore table) {
        sample(table, 1);
    }

    double secondsSinceSample() {
        return (double) (System.nanoTime() - sampledAt) / TimeUnit.SECONDS.toNanos(1);
    }

    /** The load since the last sample. */
    OrderingPolicy.Load sample(ColumnFamilyStore table, double redundantShareOfWrites) {
        sampledAt = System.nanoTime();
        long writes = table.metric.writeLatency.latency.getCount();
        long reads = table.metric.readLatency.latency.getCount();
        long scans = table.metric.rangeLatency.latency.getCount();
        OrderingPolicy.Load load = new OrderingPolicy.Load(
                writes - writesSeen, reads - readsHereSeen, scans - scansSeen,
                redundantShareOfWrites, redundantShareOfReads(table));
        writesSeen = writes;
        readsHereSeen = reads;
        scansSeen = scans;
        return load;
    }

    private double redundantShareOfReads(ColumnFamilyStore table) {
        AbstractReplicationStrategy replication = table.keyspace.getReplicationStrategy();
        RedundantReadShare share =
                new RedundantReadShare(copiesPerPrimary(replication), asksPrimaryFirst());
        ClientRequestsMetricsHolder.readMetricsMap.forEach((level, requests) -> {
            long now = requests.latency.getCount();
            Long before = readsSeen.put(level, now);
            long reads = before == null ? 0 : now - before;
            if (reads > 0) {
                share.addReads(reads, replicasReadAt(level, replication));
            }
        });
        return share.redundantShare();
    }

    /** The copies of one data centre: each has primary copies of its own, which its readers ask. */
    private static int copiesPerPrimary(AbstractReplicationStrategy replication) {
        return replication instanceof NetworkTopologyStrategy
                ? ((NetworkTopologyStrategy) replication)
                        .getReplicationFactor(DatabaseDescriptor.getLocalDataCenter()).allReplicas
                : replication.getReplicationFactor().allReplicas;
    }

    /** The number of replicas that a read asks; Cassandra gives none for NODE_LOCAL. */
    private static int replicasReadAt(
            ConsistencyLevel level, AbstractReplicationStrategy replication) {
        return level == ConsistencyLevel.NODE_LOCAL ? 1 : level.blockFor(replication);
    }

    /** False with the dynamic snitch, for instance, which asks the fastest replica first. */
    private static boolean asksPrimaryFirst() {
        IEndpointSnitch snitch = DatabaseDescriptor.getEndpointSnitch();
        return snitch instanceof SimpleSnitch || snitch instanceof PrimaryFirstSnitch;
    }
}
