package org.cleavedb.cassandra;

/** The reason of a compaction of redundant copies. */
enum CompactionReason {
    /** The global log has {@code split_segments} segments or more. */
    SPLIT("splitting the global log"),
    /** A group has more runs than {@code ordering}. */
    MERGE("merging, as they exceed `ordering`, the runs of"),
    /** SSTables hold primary copies and redundant ones. */
    SEPARATE("separating primary and redundant copies"),
    /** Enough of a group's data can be purged. */
    TOMBSTONES("dropping tombstones of the runs of"),
    /** An operator asked for a major compaction. */
    EVERYTHING("compacting all redundant copies, as an operator asked for"),
    /** An operator named the SSTables. */
    CHOSEN("compacting the SSTables that an operator named"),
    /** A command such as {@code upgradesstables} rewrites SSTables one by one. */
    REWRITE("rewriting an SSTable, as an operator asked for");

    /** The text that operators read in the log. */
    final String description;

    CompactionReason(String description) {
        this.description = description;
    }
}
