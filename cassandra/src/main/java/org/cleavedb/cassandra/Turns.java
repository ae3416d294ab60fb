package org.cleavedb.cassandra;

import java.util.List;
import java.util.function.Supplier;

/**
 * Who is asked for the next task. The two sides take turns, so that neither waits for the other to
 * have caught up.
 *
 * <p>As long as the roles of some files are not known, no layout is asked: after a change of the
 * ring, many of them return to the layout that they came from. What it compacts meanwhile may come
 * to overlap them, and they would lose their level.
 *
 * <p>Not safe for several threads: the strategy's monitor guards it.
 */
final class Turns {
    private boolean redundantFirst;

    /**
     * @param rolesAreKnown of all files that can be read
     * @param log the log of redundant copies, inspections included
     * @param trees what lies in trees, if any
     * @return the first task that somebody has, or null
     */
    <T> T next(boolean rolesAreKnown, Supplier<T> log, Supplier<T> trees, Supplier<T> primary) {
        if (!rolesAreKnown) {
            return log.get();
        }
        redundantFirst = !redundantFirst;
        List<Supplier<T>> asked = redundantFirst
                ? List.of(log, trees, primary) : List.of(primary, log, trees);
        for (Supplier<T> side : asked) {
            T task = side.get();
            if (task != null) {
                return task;
            }
        }
        return null;
    }
}
