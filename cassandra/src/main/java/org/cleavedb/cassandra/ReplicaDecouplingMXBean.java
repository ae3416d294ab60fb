package org.cleavedb.cassandra;

import java.util.Map;

/**
 * The JMX attributes of one table, under the name {@code
 * org.cleavedb.cassandra:type=ReplicaDecoupling,keyspace=…,table=…}. Numbers of SSTables and their
 * bytes are current ones, over all disks and repair states. Bytes written and reads are counted
 * since the start of the node.
 */
public interface ReplicaDecouplingMXBean {
    /** The SSTables of primary copies. */
    int getPrimaryFiles();

    /** The bytes of primary SSTables on disk. */
    long getPrimaryBytes();

    /** The segments of the global log: redundant copies as they were flushed or received. */
    int getSegments();

    /** The bytes of segments on disk. */
    long getSegmentBytes();

    /** The sorted runs of all groups of the local logs. */
    int getRuns();

    /** The bytes of sorted runs on disk. */
    long getRunBytes();

    /** The number of runs in each group. The name of a group is its source node and a number. */
    Map<String, Integer> getRunsByGroup();

    /** The most runs in one group; at most {@code ordering} while no compaction is pending. */
    int getMaxRunsPerGroup();

    /** The ordering in force: the most runs that a group may keep. */
    int getOrdering();

    /** The ordering that the last load alone asks for; {@code auto} follows it slowly. */
    int getOrderingWanted();

    /**
     * The share of reads that ask redundant copies, from 0 to 1, as {@code auto} estimates it from
     * consistency levels; -1 without {@code auto}, or while it is unknown.
     */
    double getRedundantShareOfReads();

    /** The SSTables that wait for an inspection, as after a change of the ring. */
    int getFilesToInspect();

    /** The SSTables that hold copies of both sides and wait to be separated. */
    int getMixedFiles();

    /** The bytes of SSTables that wait for an inspection or to be separated. */
    long getBytesToResplit();

    /** The progress after a change of the ring or an ALTER, from 0 to 1; 1 if nothing is left. */
    double getResplitProgress();

    /** The bytes that flushes wrote to the primary side; received streams are not counted. */
    long getPrimaryBytesFlushed();

    /** The bytes that flushes wrote to redundant copies; received streams are not counted. */
    long getRedundantBytesFlushed();

    /** The bytes that compactions of the primary side wrote. */
    long getPrimaryBytesCompacted();

    /** The bytes that splits of the global log wrote, without the runs that they merged. */
    long getBytesSplit();

    /** The bytes that merges of groups or trees wrote, those to drop tombstones included. */
    long getBytesMerged();

    /** The bytes that the separation of mixed SSTables wrote. */
    long getBytesSeparated();

    /**
     * The bytes of redundant copies that were rewritten because an operator asked for it, or by the
     * anticompaction of a repair.
     */
    long getBytesRewritten();

    /** The reads that looked into primary SSTables; each SSTable of a read counts. */
    long getPrimaryFilesRead();

    /** The reads that looked into segments; each segment of a read counts. */
    long getSegmentsRead();

    /** The reads that looked into runs; each run of a read counts. */
    long getRunsRead();

    /** The reads that looked into SSTables that were mixed, or whose role was unknown. */
    long getOtherFilesRead();

    /** The inspections that found the role of an SSTable, or found it to be mixed. */
    long getFilesInspected();
}
