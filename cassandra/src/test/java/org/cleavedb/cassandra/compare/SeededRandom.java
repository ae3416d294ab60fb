package org.cleavedb.cassandra.compare;

import java.lang.reflect.Field;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A seed for the random numbers of YCSB, which makes it repeatable. All its generators use {@link
 * ThreadLocalRandom}, which has no method for a seed; but its state is a field of the thread.
 */
final class SeededRandom {
    private SeededRandom() {
    }

    /** Makes the random numbers of this thread depend on the seed alone from now on. */
    static void seed(long seed) {
        // Otherwise the first draw would overwrite the state.
        ThreadLocalRandom.current();
        try {
            Field state = Thread.class.getDeclaredField("threadLocalRandomSeed");
            state.setAccessible(true);
            state.setLong(Thread.currentThread(), seed);
        } catch (ReflectiveOperationException | RuntimeException closed) {
            throw new IllegalStateException("this Java does not let the workload be seeded; run "
                    + "it with --add-opens=java.base/java.lang=ALL-UNNAMED, as cassandra/cluster "
                    + "does", closed);
        }
    }
}
