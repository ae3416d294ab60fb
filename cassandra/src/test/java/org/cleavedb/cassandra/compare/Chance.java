package org.cleavedb.cassandra.compare;

import java.lang.reflect.Field;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Makes YCSB repeatable. All its generators draw from {@link ThreadLocalRandom}, which cannot be
 * told a seed; but its state is a field of the thread, and that can be set.
 */
final class Chance {
    private Chance() {
    }

    /** From here on, what this thread draws depends on the seed alone. */
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
