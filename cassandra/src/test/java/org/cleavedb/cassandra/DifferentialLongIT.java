package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Random;
import org.cleavedb.cassandra.Differential.Event;
import org.cleavedb.cassandra.cluster.Cluster;
import org.cleavedb.cassandra.cluster.ClusterSpec;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * The long differential test, with three nodes and random events. {@code -Dcleavedb.seed=N} sets
 * the first seed, and {@code -Dcleavedb.seeds=N} the number of seeds.
 */
@Tag("long")
class DifferentialLongIT {
    private static final int NODES = 3;
    private static final int ROUNDS = 40;
    private static final int CHANGES = 150;

    @Test
    void noDifferenceInAnyLife() throws IOException {
        long first = Long.getLong("cleavedb.seed", 100);
        long seeds = Long.getLong("cleavedb.seeds", 4);
        try (Cluster cluster = new Cluster(
                new ClusterSpec(Path.of("target", "nodes-of-long"), NODES)
                        .tokensPerNode(8).heap("384M"))) {
            cluster.reset();
            cluster.start();
            try (Cluster.Client client = cluster.connect(1)) {
                client.execute("CREATE KEYSPACE differential WITH replication = "
                        + "{'class': 'SimpleStrategy', 'replication_factor': 3}");
            }
            for (long seed = first; seed < first + seeds; seed++) {
                live(cluster, seed);
            }
        }
    }

    private static void live(Cluster cluster, long seed) throws IOException {
        Random random = new Random(seed);
        Differential run = new Differential(cluster, NODES, "differential", seed);
        run.create();
        try {
            for (int round = 0; round < ROUNDS; round++) {
                run.round(event(random), CHANGES);
            }
        } finally {
            run.close();
        }
    }

    /** The frequencies of events: flushes are frequent, and events that stop a node are rare. */
    private static Event event(Random random) {
        int die = random.nextInt(20);
        if (die < 9) {
            return random.nextBoolean() ? Event.FLUSH : Event.FLUSH_OURS;
        }
        Event[] others = {Event.COMPACT, Event.ALTER_OPTIONS, Event.ALTER_TO_STOCK,
            Event.ALTER_OPTIONS, Event.REPAIR, Event.COMPACT, Event.ALTER_OPTIONS, Event.REPAIR,
            Event.RESTART, Event.KILL, Event.KILL};
        return others[die - 9];
    }
}
