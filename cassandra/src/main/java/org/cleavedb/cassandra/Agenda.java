package org.cleavedb.cassandra;

import java.util.List;
import java.util.function.Predicate;
import java.util.function.ToLongFunction;

/**
 * Which files of the redundant side should be rewritten next. Taking apart the files of a large
 * table lasts for hours, while flushes go on: so mixed files and the log take turns, and a log in
 * which segments pile up comes before all.
 *
 * <p>Not safe for several threads: the strategy's monitor guards it.
 *
 * @param <F> a file
 */
final class Agenda<F> {
    /** Taking apart more at once would need much room on the disk. */
    static final int MIXED_AT_ONCE = 8;
    /** A backlog, as after a node has joined, is split in parts: so many of each lane. */
    private static final int SEGMENTS_AT_ONCE = 32;
    /** So many times the segments of a split are a pile. */
    private static final int PILE = 2;

    /** What should be done with which files. */
    static final class Item<F> {
        final Purpose purpose;
        final List<F> files;

        Item(Purpose purpose, List<F> files) {
            this.purpose = purpose;
            this.files = files;
        }
    }

    private final FileBook<F> book;
    private final int splitSegments;
    private final ToLongFunction<F> size;
    private final LeftAlone<F> leftAlone;
    private boolean separatedLast;

    /**
     * @param splitSegments how many segments of a lane are enough for a split
     * @param leftAlone mixed files that could not be taken apart
     */
    Agenda(FileBook<F> book, int splitSegments, ToLongFunction<F> size, LeftAlone<F> leftAlone) {
        this.book = book;
        this.splitSegments = splitSegments;
        this.size = size;
        this.leftAlone = leftAlone;
    }

    /** The most urgent thing, or null. */
    Item<F> next(int ordering, Predicate<F> free) {
        leftAlone.keepOnly(book.mixed());
        List<F> segments = toSplit(splitSegments, free);
        if (!toSplit(PILE * splitSegments, free).isEmpty()) {
            return new Item<>(Purpose.SPLIT, segments);
        }
        List<F> overfull = book.toMerge(ordering, size, free);
        boolean logHasWork = !overfull.isEmpty() || !segments.isEmpty();
        List<F> mixed = book.toSeparate(MIXED_AT_ONCE, free.and(file -> !leftAlone.contains(file)));
        if (!mixed.isEmpty() && !(separatedLast && logHasWork)) {
            separatedLast = true;
            return new Item<>(Purpose.SEPARATE, mixed);
        }
        separatedLast = false;
        if (!overfull.isEmpty()) {
            return new Item<>(Purpose.MERGE, overfull);
        }
        return segments.isEmpty() ? null : new Item<>(Purpose.SPLIT, segments);
    }

    private List<F> toSplit(int enough, Predicate<F> free) {
        return book.toSplit(enough, Math.max(splitSegments, SEGMENTS_AT_ONCE), free);
    }
}
