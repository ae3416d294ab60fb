package org.cleavedb.cassandra;

import org.apache.cassandra.db.lifecycle.ILifecycleTransaction;
import org.apache.cassandra.db.lifecycle.WrappedLifecycleTransaction;

/**
 * A view of a transaction that several rewriters fill together. Each rewriter adds its SSTables.
 * The steps that may be taken only once, after all rewriters are done, are left to the
 * transaction's owner and do nothing here.
 *
 * <p>Invariant <b>inputs become obsolete only together with all outputs</b>: no single rewriter can
 * obsolete them.
 */
final class SharedTransaction extends WrappedLifecycleTransaction {
    SharedTransaction(ILifecycleTransaction owned) {
        super(owned);
    }

    @Override
    public void checkpoint() {
        // This step is the owner's.
    }

    @Override
    public void obsoleteOriginals() {
        // This step is the owner's.
    }

    @Override
    public void prepareToCommit() {
        // This step is the owner's.
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
        // This step is the owner's.
    }
}
