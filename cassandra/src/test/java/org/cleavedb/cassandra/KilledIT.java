package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The node is killed in the middle of a split, a merge and a re-split, and restarted. */
@Tag("long")
class KilledIT {
    private static final String OPTIONS =
            "'ordering': '1', 'split_segments': '2', 'groups': '2'";
    /** How often each thing is to be hit in its middle, and how often that is tried. */
    private static final int HITS = 2;
    private static final int TRIES = 10;

    @Test
    void nothingIsLostWhateverIsBrokenOff() throws IOException {
        try (LoneNode node = new LoneNode("nodes-of-killed")) {
            node.cluster().reset();
            node.start(OPTIONS);
            hit(node, Purpose.SPLIT, node::writeAndFlush);
            // Splits merge on their way; what they leave to a merge is made by another ordering.
            hit(node, Purpose.MERGE, () -> {
                node.alter(LoneNode.ours(OPTIONS.replace("'ordering': '1'", "'ordering': '9'")));
                for (int file = 0; file < 4; file++) {
                    node.writeAndFlush();
                }
                node.alter(LoneNode.ours(OPTIONS));
                node.writeOneAndFlush();
            });
            hit(node, Purpose.SEPARATE, () -> {
                node.alter("{'class': 'SizeTieredCompactionStrategy'}");
                for (int file = 0; file < 3; file++) {
                    node.writeAndFlush();
                }
                node.alter(LoneNode.ours(OPTIONS));
                node.writeOneAndFlush();
            });
        }
    }

    private static void hit(LoneNode node, Purpose purpose, LoneNode.Cause cause)
            throws IOException {
        int hits = 0;
        for (int attempt = 0; attempt < TRIES && hits < HITS; attempt++) {
            node.slowDown();
            node.makeIt(purpose, cause);
            node.cluster().kill(1);
            hits += node.isInTheMiddleOfACompaction() ? 1 : 0;
            node.killAndRestart();
            node.assertRowsAreThere();
            node.speedUp();
            node.writeAndFlush();
            node.assertAllIsWell();
        }
        assertTrue(hits == HITS, purpose + " was hit in its middle " + hits + " times only");
    }
}
