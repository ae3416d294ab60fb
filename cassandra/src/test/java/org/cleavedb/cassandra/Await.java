package org.cleavedb.cassandra;

import java.util.concurrent.TimeUnit;

/** Waits until a node has done something in the background; a slow node does not fail a test. */
final class Await {
    private static final long LIMIT_MINUTES = 5;
    private static final long POLL_MS = 200;

    /** A condition that may fail while files come and go. */
    interface Condition {
        boolean holds() throws Exception;
    }

    private Await() {
    }

    static void until(String what, Condition condition) {
        long deadline = System.nanoTime() + TimeUnit.MINUTES.toNanos(LIMIT_MINUTES);
        Exception last = null;
        while (System.nanoTime() < deadline) {
            try {
                if (condition.holds()) {
                    return;
                }
                last = null;
                Thread.sleep(POLL_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                break;
            } catch (Exception fileWentAway) {
                last = fileWentAway;
            }
        }
        throw new AssertionError("not within " + LIMIT_MINUTES + " minutes: " + what, last);
    }
}
