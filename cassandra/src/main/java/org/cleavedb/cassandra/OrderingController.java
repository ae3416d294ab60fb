package org.cleavedb.cassandra;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The controller of one table's ordering, which is the most runs that a group may keep. The
 * ordering is the configured number or, with {@code auto}, follows the load. All strategies of the
 * table share one controller, which outlives an ALTER. After a restart, {@code auto} begins again.
 *
 * <p>The controller has no timer. Cassandra asks each table for compactions at least once a minute,
 * and the load is sampled then if the sampling interval has passed.
 */
final class OrderingController {
    private static final Logger LOG = LoggerFactory.getLogger(OrderingController.class);

    private DecouplingOptions options;
    private LoadSampler load;
    private OrderingPolicy.Choice choice = new OrderingPolicy.Choice(OrderingPolicy.BALANCED, 0);
    private int wanted;
    private double redundantShareOfReads = -1;

    /** Adopts the options of the table, which are new or were changed. */
    synchronized void configure(DecouplingOptions now) {
        options = now;
        if (!now.orderingIsAuto) {
            load = null;
            choice = new OrderingPolicy.Choice(now.ordering, 0);
            return;
        }
        choice = rule().bounded(choice);
        wanted = choice.ordering;
    }

    /** Samples the load if the interval has passed, and adapts the ordering to it. */
    synchronized void sampleLoad(ColumnFamilyStore table, Placement placement) {
        if (!options.orderingIsAuto || !placement.isKnown()) {
            return;
        }
        if (load == null) {
            load = new LoadSampler(table);
            return;
        }
        double seconds = load.secondsSinceSample();
        if (seconds < options.orderingSeconds) {
            return;
        }
        OrderingPolicy.Load seen = load.sample(table, 1 - placement.primaryShare());
        if (!seen.isEnough()) {
            return;
        }
        wanted = rule().wanted(seen);
        redundantShareOfReads = seen.redundantShareOfReads;
        OrderingPolicy.Choice next = rule().next(choice, seen);
        if (next.ordering != choice.ordering) {
            LOG.info("{}.{}: `ordering` is now {} and was {}. In {} s, this node wrote {} and read "
                    + "{} redundant copies; this load alone would ask for {}",
                    table.getKeyspaceName(), table.getTableName(), next.ordering, choice.ordering,
                    Math.round(seconds), Math.round(seen.redundantWrites()),
                    Math.round(seen.redundantReads()), wanted);
        }
        choice = next;
    }

    /** The ordering in force. */
    synchronized int current() {
        return choice.ordering;
    }

    /** The ordering that the last sample alone asks for; the current one without {@code auto}. */
    synchronized int wanted() {
        return options.orderingIsAuto ? wanted : choice.ordering;
    }

    /** The share of reads that ask redundant copies, from 0 to 1; -1 if it is unknown. */
    synchronized double redundantShareOfReads() {
        return redundantShareOfReads;
    }

    private OrderingPolicy rule() {
        return new OrderingPolicy(options.orderingMin, options.orderingMax);
    }
}
