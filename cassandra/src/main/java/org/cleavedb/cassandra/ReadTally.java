package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.metrics.RestorableMeter;

/**
 * How often reads have looked into the files of each role. Cassandra counts it for each file, as
 * long as that is there; what is counted here is the difference to the last time we asked, credited
 * to the role that the file has meanwhile had.
 *
 * <p>Not safe for several threads: the strategy's monitor guards it.
 */
final class ReadTally {
    private final Map<SSTableReader, Long> credited = new HashMap<>();
    private final TableMetrics metrics;

    ReadTally(TableMetrics metrics) {
        this.metrics = metrics;
    }

    /** From now on its reads count. */
    void begin(SSTableReader file) {
        credited.putIfAbsent(file, looks(file));
    }

    /** Credits what was read of a file since the last time; null is a role that is not known. */
    void credit(SSTableReader file, Role role) {
        Long before = credited.get(file);
        if (before != null) {
            long now = looks(file);
            metrics.lookedInto(role, now - before);
            credited.put(file, now);
        }
    }

    /** The last time for this file. */
    void end(SSTableReader file, Role role) {
        credit(file, role);
        credited.remove(file);
    }

    private static long looks(SSTableReader file) {
        RestorableMeter meter = file.getReadMeter();
        return meter == null ? 0 : meter.count();
    }
}
