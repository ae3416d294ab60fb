package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.metrics.RestorableMeter;

/**
 * A counter of the reads that looked into the SSTables of each role. Cassandra counts reads per
 * SSTable, for as long as it exists. This class adds the difference between two calls to the role
 * that the SSTable had in between.
 *
 * <p>This class is not thread-safe; the monitor of {@link ReplicaDecouplingStrategy} guards it.
 */
final class RoleReadCounter {
    private final Map<SSTableReader, Long> credited = new HashMap<>();
    private final TableMetrics metrics;

    RoleReadCounter(TableMetrics metrics) {
        this.metrics = metrics;
    }

    /**
     * Counts the reads of an SSTable from now on. If they are counted already, credits those since
     * the last call to this role. Reads go on meanwhile: none may be credited to the unknown role
     * of an SSTable that is only about to get one.
     */
    void begin(SSTableReader file, Role role) {
        if (credited.containsKey(file)) {
            credit(file, role);
        } else {
            credited.put(file, readCount(file));
        }
    }

    /** Credits the reads since the last call to this role; null if the role is unknown. */
    void credit(SSTableReader file, Role role) {
        Long before = credited.get(file);
        if (before != null) {
            long now = readCount(file);
            metrics.countReads(role, now - before);
            credited.put(file, now);
        }
    }

    /** Credits the last reads of an SSTable and forgets it. */
    void end(SSTableReader file, Role role) {
        credit(file, role);
        credited.remove(file);
    }

    private static long readCount(SSTableReader file) {
        RestorableMeter meter = file.getReadMeter();
        return meter == null ? 0 : meter.count();
    }
}
