package org.cleavedb.cassandra;

/** Why redundant copies are rewritten; operators read the words in the log. */
enum Purpose {
    SPLIT("splitting the global log"),
    MERGE("merging, as they exceed `ordering`, the runs of"),
    SEPARATE("taking apart primary and redundant copies"),
    TOMBSTONES("dropping tombstones of the runs of"),
    EVERYTHING("compacting all redundant copies, as asked for"),
    CHOSEN("compacting the files that were asked for"),
    REWRITE("rewriting, as asked for");

    final String words;

    Purpose(String words) {
        this.words = words;
    }
}
