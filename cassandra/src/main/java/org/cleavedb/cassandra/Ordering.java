package org.cleavedb.cassandra;

import org.apache.cassandra.db.ColumnFamilyStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The ordering that is in force for one table: the one that was asked for, or, with {@code auto},
 * one that follows the load. All strategies of the table share it, and it outlives an ALTER; after
 * a restart, {@code auto} begins anew.
 *
 * <p>There is no clock of ours: Cassandra asks each table at least once a minute what to do, and
 * the load is looked at then, if it is time.
 */
final class Ordering {
    private static final Logger LOG = LoggerFactory.getLogger(Ordering.class);

    private DecouplingOptions options;
    private LoadWatch load;
    private OrderingRule.Choice choice = new OrderingRule.Choice(OrderingRule.EVEN, 0);
    private int wanted;
    private double redundantShareOfReads = -1;

    /** The options of the table have been read or changed. */
    synchronized void configure(DecouplingOptions now) {
        options = now;
        if (!now.orderingIsAuto) {
            load = null;
            choice = new OrderingRule.Choice(now.ordering, 0);
            return;
        }
        choice = rule().bounded(choice);
        wanted = choice.ordering;
    }

    /** Looks at the load, if it is time. */
    synchronized void follow(ColumnFamilyStore table, Placement placement) {
        if (!options.orderingIsAuto || !placement.isKnown()) {
            return;
        }
        if (load == null) {
            load = new LoadWatch(table);
            return;
        }
        double seconds = load.secondsSinceLook();
        if (seconds < options.orderingSeconds) {
            return;
        }
        OrderingRule.Load seen = load.look(table, 1 - placement.primaryShare());
        if (!seen.isEnough()) {
            return;
        }
        wanted = rule().wanted(seen);
        redundantShareOfReads = seen.redundantShareOfReads;
        OrderingRule.Choice next = rule().next(choice, seen);
        if (next.ordering != choice.ordering) {
            LOG.info("{}.{}: `ordering` is now {}, it was {}: in {} s, this node wrote {} and read "
                    + "{} redundant copies; the load as it is now asks for {}",
                    table.getKeyspaceName(), table.getTableName(), next.ordering, choice.ordering,
                    Math.round(seconds), Math.round(seen.redundantWrites()),
                    Math.round(seen.redundantReads()), wanted);
        }
        choice = next;
    }

    synchronized int current() {
        return choice.ordering;
    }

    /** What the load of the last look would have by itself; the same as above if not auto. */
    synchronized int wanted() {
        return options.orderingIsAuto ? wanted : choice.ordering;
    }

    /** From 0 to 1, or -1 if nothing is known. */
    synchronized double redundantShareOfReads() {
        return redundantShareOfReads;
    }

    private OrderingRule rule() {
        return new OrderingRule(options.orderingMin, options.orderingMax);
    }
}
