package org.cleavedb.cassandra;

import org.apache.cassandra.db.lifecycle.ILifecycleTransaction;
import org.apache.cassandra.db.lifecycle.WrappedLifecycleTransaction;

/**
 * One transaction as seen by several rewriters that fill it together. Each adds its files; the
 * steps that may be taken only once, when all are done, are left to whoever owns the transaction.
 *
 * <p>Invariant <b>inputs go only with all outputs</b>: no rewriter alone can obsolete them.
 */
final class SharedTransaction extends WrappedLifecycleTransaction {
    SharedTransaction(ILifecycleTransaction owned) {
        super(owned);
    }

    @Override
    public void checkpoint() {
        // The owner's step.
    }

    @Override
    public void obsoleteOriginals() {
        // The owner's step.
    }

    @Override
    public void prepareToCommit() {
        // The owner's step.
    }

    @Override
    public Throwable commit(Throwable accumulate) {
        return accumulate;
    }

    @Override
    public Throwable abort(Throwable accumulate) {
        return accumulate;
    }

    @Override
    public void close() {
        // The owner's step.
    }
}
