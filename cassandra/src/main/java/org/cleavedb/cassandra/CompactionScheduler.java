package org.cleavedb.cassandra;

import java.util.List;
import java.util.function.Supplier;

/**
 * The scheduler of background compactions: it decides which side of the table is asked for the next
 * task. Primary and redundant copies alternate, so that neither side waits until the other has
 * caught up.
 *
 * <p>While the roles of some SSTables are about to be found out, no stock strategy is asked. After
 * a change of the ring, many SSTables return to the strategy that they came from. If that strategy
 * compacted others meanwhile, the outputs might overlap them, and they would lose their level.
 *
 * <p>This class is not thread-safe; the monitor of {@link ReplicaDecouplingStrategy} guards it.
 */
final class CompactionScheduler {
    private boolean redundantFirst;

    /**
     * Returns the next task, or null if no side has any.
     *
     * @param rolesAreKnown false while the roles of some SSTables are about to be found out
     * @param log gives the next inspection, or the next task of the log of redundant copies
     * @param trees gives the next task of the trees of redundant copies
     * @param primary gives the next task of the primary copies
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
