package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Kills the node in the middle of a split, a merge and a separation, and restarts it. */
@Tag("long")
class KilledIT {
    private static final String OPTIONS =
            "'ordering': '1', 'split_segments': '2', 'groups': '2'";
    /** The number of kills in the middle of each kind of compaction, and of attempts for them. */
    private static final int HITS = 2;
    private static final int TRIES = 10;

    @Test
    void nothingIsLostWhateverIsBrokenOff() throws IOException {
        try (LoneNode node = new LoneNode("nodes-of-killed")) {
            node.cluster().reset();
            node.start(OPTIONS);
            hit(node, CompactionReason.SPLIT, node::writeAndFlush);
            // Splits merge runs themselves, so a lower ordering causes the merges.
            hit(node, CompactionReason.MERGE, () -> {
                node.alter(LoneNode.ours(OPTIONS.replace("'ordering': '1'", "'ordering': '9'")));
                for (int file = 0; file < 4; file++) {
                    node.writeAndFlush();
                }
                node.alter(LoneNode.ours(OPTIONS));
                node.writeOneAndFlush();
            });
            hit(node, CompactionReason.SEPARATE, () -> {
                node.alter("{'class': 'SizeTieredCompactionStrategy'}");
                for (int file = 0; file < 3; file++) {
                    node.writeAndFlush();
                }
                node.alter(LoneNode.ours(OPTIONS));
                node.writeOneAndFlush();
            });
        }
    }

    private static void hit(LoneNode node, CompactionReason reason, LoneNode.Cause cause)
            throws IOException {
        int hits = 0;
        for (int attempt = 0; attempt < TRIES && hits < HITS; attempt++) {
            node.slowDown();
            node.makeIt(reason, cause);
            node.cluster().kill(1);
            hits += node.isInTheMiddleOfACompaction() ? 1 : 0;
            node.killAndRestart();
            node.assertRowsAreThere();
            node.speedUp();
            node.writeAndFlush();
            node.assertAllIsWell();
        }
        assertTrue(hits == HITS, reason + " was hit in its middle " + hits + " times only");
    }
}
