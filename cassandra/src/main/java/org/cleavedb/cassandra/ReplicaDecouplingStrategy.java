package org.cleavedb.cassandra;

import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.db.compaction.AbstractCompactionTask;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.metadata.StatsMetadata;

/**
 * The compaction strategy that operators name in {@code ALTER TABLE}. All files of the table are
 * handed to the stock layout that the option {@code primary} chooses.
 */
public final class ReplicaDecouplingStrategy extends AbstractCompactionStrategy {
    private final AbstractCompactionStrategy primary;
    private final Set<SSTableReader> files = new HashSet<>();

    public ReplicaDecouplingStrategy(ColumnFamilyStore table, Map<String, String> options) {
        super(table, options);
        DecouplingOptions chosen = DecouplingOptions.of(options);
        primary = chosen.primary.create(table, chosen.rest);
    }

    /** Called by Cassandra at CREATE and ALTER; returns the options that nobody knows. */
    public static Map<String, String> validateOptions(Map<String, String> options)
            throws ConfigurationException {
        return DecouplingOptions.validate(options);
    }

    @Override
    public synchronized void startup() {
        primary.startup();
        super.startup();
    }

    @Override
    public synchronized void shutdown() {
        super.shutdown();
        primary.shutdown();
    }

    @Override
    public AbstractCompactionTask getNextBackgroundTask(long gcBefore) {
        return primary.getNextBackgroundTask(gcBefore);
    }

    @Override
    public Collection<AbstractCompactionTask> getMaximalTask(long gcBefore, boolean splitOutput) {
        return primary.getMaximalTask(gcBefore, splitOutput);
    }

    @Override
    public AbstractCompactionTask getUserDefinedTask(
            Collection<SSTableReader> sstables, long gcBefore) {
        return primary.getUserDefinedTask(sstables, gcBefore);
    }

    @Override
    public AbstractCompactionTask getCompactionTask(
            LifecycleTransaction transaction, long gcBefore, long maxSSTableBytes) {
        return primary.getCompactionTask(transaction, gcBefore, maxSSTableBytes);
    }

    @Override
    public int getEstimatedRemainingTasks() {
        return primary.getEstimatedRemainingTasks();
    }

    @Override
    public long getMaxSSTableBytes() {
        return primary.getMaxSSTableBytes();
    }

    @Override
    public ScannerList getScanners(
            Collection<SSTableReader> sstables, Collection<Range<Token>> ranges) {
        return primary.getScanners(sstables, ranges);
    }

    @Override
    public Collection<Collection<SSTableReader>> groupSSTablesForAntiCompaction(
            Collection<SSTableReader> sstables) {
        return primary.groupSSTablesForAntiCompaction(sstables);
    }

    @Override
    public synchronized void replaceSSTables(
            Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        files.removeAll(removed);
        files.addAll(added);
        primary.replaceSSTables(removed, added);
    }

    @Override
    public synchronized void addSSTable(SSTableReader added) {
        files.add(added);
        primary.addSSTable(added);
    }

    @Override
    public synchronized void removeSSTable(SSTableReader removed) {
        files.remove(removed);
        primary.removeSSTable(removed);
    }

    @Override
    public void metadataChanged(StatsMetadata before, SSTableReader sstable) {
        primary.metadataChanged(before, sstable);
    }

    @Override
    protected synchronized Set<SSTableReader> getSSTables() {
        return Set.copyOf(files);
    }

    /** Files that are opened while they are still written have no role yet. */
    @Override
    public boolean supportsEarlyOpen() {
        return false;
    }
}
