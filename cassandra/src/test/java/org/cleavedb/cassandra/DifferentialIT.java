package org.cleavedb.cassandra;

import java.io.IOException;
import java.util.List;
import org.cleavedb.cassandra.Differential.Event;
import org.cleavedb.cassandra.cluster.Cluster;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Compares a table under this strategy with one under a stock strategy through many events. */
class DifferentialIT {
    private static final int CHANGES = 60;

    /** All events once, in an order in which each meets the SSTables that others leave. */
    private static final List<Event> LIFE = List.of(
            Event.FLUSH_OURS, Event.FLUSH, Event.FLUSH_OURS, Event.ALTER_TO_STOCK, Event.FLUSH,
            Event.FLUSH_OURS, Event.ALTER_OPTIONS, Event.FLUSH, Event.COMPACT, Event.FLUSH_OURS,
            Event.KILL, Event.FLUSH_OURS, Event.REPAIR, Event.ALTER_OPTIONS, Event.FLUSH_OURS);

    @Test
    @Tag("quick")
    void noDifferenceWhileTombstonesAreKept() throws IOException {
        live(1);
    }

    @Test
    @Tag("long")
    void noDifferenceWhileTombstonesArePurged() throws IOException {
        live(2);
    }

    private static void live(long seed) throws IOException {
        Cluster cluster = SharedNodes.cluster();
        String keyspace = "differential" + seed;
        try (Cluster.Client client = cluster.connect(1)) {
            SharedNodes.createKeyspace(client, keyspace);
        }
        Differential run = new Differential(cluster, SharedNodes.NODES, keyspace, seed);
        run.create();
        try {
            for (Event event : LIFE) {
                run.round(event, CHANGES);
            }
        } finally {
            run.close();
        }
    }
}
