package org.cleavedb.cassandra;

import java.util.Map;

/**
 * What operators see of one table, as {@code org.cleavedb.cassandra:type=ReplicaDecoupling,
 * keyspace=…,table=…}. Files are counted now, over all disks and repair states; bytes written are
 * counted since the node was started.
 */
public interface ReplicaDecouplingMXBean {
    /** Files of primary copies. */
    int getPrimaryFiles();

    /** Bytes of these on the disk. */
    long getPrimaryBytes();

    /** Segments of the global log: redundant copies as they were flushed or received. */
    int getSegments();

    long getSegmentBytes();

    /** Sorted runs of all groups of the local logs. */
    int getRuns();

    long getRunBytes();

    /** How many runs each group holds, by its source node and its number there. */
    Map<String, Integer> getRunsByGroup();

    /** The most that any group holds; at rest no more than {@code ordering}. */
    int getMostRunsOfAGroup();

    /** Files whose keys are still to be looked at, as after a change of the ring. */
    int getFilesToInspect();

    /** Files that hold copies of both sides and are still to be taken apart. */
    int getFilesToTakeApart();

    /** Written by flushes and streams to the primary side. */
    long getPrimaryBytesFlushed();

    /** Written by flushes and streams to the global log. */
    long getRedundantBytesFlushed();

    /** Written by compactions of the primary side. */
    long getPrimaryBytesCompacted();

    /** Written by splitting the global log. */
    long getBytesSplit();

    /** Written by merging groups, for `ordering` or to drop tombstones. */
    long getBytesMerged();

    /** Written by taking apart mixed files. */
    long getBytesTakenApart();

    /** Written because an operator asked for it. */
    long getBytesRewritten();

    /** Files that were looked through for their role. */
    long getFilesInspected();
}
