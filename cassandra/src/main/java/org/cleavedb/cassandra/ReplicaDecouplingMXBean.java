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

    /** The ordering in force; with {@code auto}, the one that was chosen last. */
    int getOrdering();

    /** What the load of the last minute would have by itself; {@code auto} follows slowly. */
    int getOrderingWanted();

    /**
     * How much of what is read here is read from redundant copies, from 0 to 1, as {@code auto}
     * estimates it by the consistency levels; -1 without it, or as long as nothing is known.
     */
    double getRedundantShareOfReads();

    /** Files whose keys are still to be looked at, as after a change of the ring. */
    int getFilesToInspect();

    /** Files that hold copies of both sides and are still to be taken apart. */
    int getFilesToTakeApart();

    /** Bytes of the files that are still to be looked at or to be taken apart. */
    long getBytesToSort();

    /**
     * How far the files have followed a change of the ring, or an ALTER: from 0 to 1, and 1 if
     * there is nothing to do.
     */
    double getResplitProgress();

    /** Written by flushes to the primary side. What streams bring is not counted. */
    long getPrimaryBytesFlushed();

    /** Written by flushes to the log or the trees of redundant copies; streams are not counted. */
    long getRedundantBytesFlushed();

    /** Written by compactions of the primary side. */
    long getPrimaryBytesCompacted();

    /** Written by splitting the global log, without the runs that were merged on the way. */
    long getBytesSplit();

    /** Written by merging groups or trees, for `ordering` or to drop tombstones. */
    long getBytesMerged();

    /** Written by taking apart mixed files. */
    long getBytesTakenApart();

    /**
     * Written of redundant copies because an operator asked for it, or by a repair that sorts out
     * what it has repaired.
     */
    long getBytesRewritten();

    /** How often reads have looked into files of primary copies: reads times files per read. */
    long getPrimaryFilesRead();

    long getSegmentsRead();

    long getRunsRead();

    /** The same for files whose role was not known at that time, or that were mixed. */
    long getOtherFilesRead();

    /** Files that were looked through for their role. */
    long getFilesInspected();
}
