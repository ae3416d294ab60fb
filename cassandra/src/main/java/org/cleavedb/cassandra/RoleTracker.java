package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * The tracker of SSTables and their roles: it gives each SSTable that is added its role and
 * notifies the stock strategy of that role. The role is taken from the SSTable's tag. If the tag is
 * missing or was written for another ring, the SSTable inherits the role of the compaction's
 * inputs. If these do not have one common role, an inspection of its keys finds the role later.
 *
 * <p>This class is not thread-safe; the monitor of {@link ReplicaDecouplingStrategy} guards it.
 *
 * <p>Invariant <b>a stock strategy knows exactly the SSTables of its role</b>: every change of the
 * manifest is reported to the strategy within the same call.
 */
final class RoleTracker {
    private final Supplier<Placement> ring;
    private final RoleManifest<SSTableReader> manifest;
    private final StockStrategies strategies;
    private final TableMetrics metrics;
    private final RoleReadCounter reads;
    private final RemovedRoles removedRoles = new RemovedRoles();
    private Placement placement = Placement.UNKNOWN;
    private long peakPendingBytes;

    /** @param ring the placement that the ring asks for at present */
    RoleTracker(Supplier<Placement> ring, RoleManifest<SSTableReader> manifest,
            StockStrategies strategies, TableMetrics metrics) {
        this.ring = ring;
        this.manifest = manifest;
        this.strategies = strategies;
        this.metrics = metrics;
        reads = new RoleReadCounter(metrics);
    }

    /** The placement by which roles are assigned at present. */
    Placement placement() {
        return placement;
    }

    void add(SSTableReader file) {
        followRing();
        AbstractCompactionStrategy strategy = classify(file, roleByTag(file));
        if (strategy != null) {
            strategy.addSSTable(file);
        }
    }

    void remove(SSTableReader file) {
        Role role = manifest.role(file);
        removedRoles.remember(file, role);
        reads.end(file, role);
        manifest.remove(file);
        AbstractCompactionStrategy strategy = strategies.of(role);
        if (strategy != null) {
            strategy.removeSSTable(file);
        }
    }

    /**
     * Replaces the inputs of a compaction by its outputs.
     *
     * <p>Tags are read before the first change and written after the last one. So no disk can fail
     * between the step that forgets the inputs and the step that reports the outputs to their
     * strategy; such a failure would leave the outputs without compaction until a restart.
     */
    void replace(Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        followRing();
        // The outputs of a compaction whose inputs all have one role have that role too, whichever
        // strategy or command ran it.
        Role inherited = placement.isKnown() ? commonRole(removed) : null;
        Map<SSTableReader, Role> tagged = new HashMap<>();
        added.forEach(file -> tagged.put(file, roleByTag(file)));
        Map<AbstractCompactionStrategy, List<SSTableReader>> removedOf = new LinkedHashMap<>();
        for (SSTableReader file : removed) {
            Role role = currentOrRemovedRole(file);
            addTo(removedOf, strategies.of(role), file);
            reads.end(file, role);
            manifest.remove(file);
            removedRoles.forget(file);
        }
        Map<AbstractCompactionStrategy, List<SSTableReader>> addedOf = new LinkedHashMap<>();
        for (SSTableReader file : added) {
            Role role = tagged.get(file);
            addTo(addedOf, classify(file, role != null ? role : inherited), file);
        }
        removedOf.forEach((strategy, files) -> {
            List<SSTableReader> made = addedOf.getOrDefault(strategy, List.of());
            strategy.replaceSSTables(files, made);
            metrics.compacted(strategy == strategies.primary(), made);
        });
        addedOf.keySet().removeAll(removedOf.keySet());
        addedOf.forEach(AbstractCompactionStrategy::addSSTables);
        if (inherited != null) {
            added.stream().filter(file -> tagged.get(file) == null)
                    .forEach(file -> inherited(file, inherited));
        }
    }

    private void inherited(SSTableReader file, Role role) {
        RoleTags.attach(file, new RoleTag(role, placement.digest()));
        if (strategies.of(role) == null) {
            metrics.countWritten(CompactionReason.REWRITE, List.of(file), 0);
        }
    }

    private static void addTo(Map<AbstractCompactionStrategy, List<SSTableReader>> files,
            AbstractCompactionStrategy strategy, SSTableReader file) {
        if (strategy != null) {
            files.computeIfAbsent(strategy, any -> new ArrayList<>()).add(file);
        }
    }

    /** Takes the result of an inspection: the role of an SSTable, or null if it is mixed. */
    void inspected(SSTableReader file, Role role, Placement by) {
        metrics.inspected.increment();
        if (by != placement || !manifest.isUnclassified(file)) {
            return;
        }
        if (role == null) {
            manifest.putMixed(file);
            return;
        }
        reads.credit(file, null);
        manifest.put(file, role);
        AbstractCompactionStrategy strategy = strategies.of(role);
        if (strategy != null) {
            strategy.addSSTable(file);
        }
        // After a crash before this line, the SSTable has no tag and is inspected once more.
        RoleTags.attach(file, new RoleTag(role, placement.digest()));
    }

    /**
     * Adopts the placement that the ring asks for. If it has changed, only SSTables whose tag names
     * the new one keep their role; the others have to be inspected.
     */
    Placement followRing() {
        removedRoles.forgetDeleted();
        Placement now = ring.get();
        if (now == placement) {
            return now;
        }
        placement = now;
        removedRoles.clear();
        // All SSTables are classified again; a peak that is kept would count some of them twice.
        peakPendingBytes = 0;
        for (SSTableReader file : manifest.all()) {
            AbstractCompactionStrategy before = strategies.of(manifest.role(file));
            AbstractCompactionStrategy after = classify(file, roleByTag(file));
            if (before != after && before != null) {
                before.removeSSTable(file);
            }
            if (before != after && after != null) {
                after.addSSTable(file);
            }
        }
        return now;
    }

    /** The most bytes that waited for a role since there were none; 0 while there are none. */
    long peakPendingBytes() {
        if (manifest.unclassified().isEmpty() && manifest.mixed().isEmpty()) {
            peakPendingBytes = 0;
        }
        return peakPendingBytes;
    }

    /** Credits the reads up to now to the roles that the SSTables have. */
    void creditReads() {
        manifest.all().forEach(file -> reads.credit(file, manifest.role(file)));
    }

    /**
     * Enters an SSTable into the manifest.
     *
     * @param role null if it is unknown
     * @return the stock strategy that must be notified, or null if no strategy has this role
     */
    private AbstractCompactionStrategy classify(SSTableReader file, Role role) {
        reads.begin(file, manifest.role(file));
        if (role != null) {
            manifest.put(file, role);
        } else {
            manifest.putUnclassified(file);
            peakPendingBytes += file.onDiskLength();
        }
        return strategies.of(role);
    }

    /** The role in the tag, or null. While the ring is unknown, the tag of any ring is accepted. */
    private Role roleByTag(SSTableReader file) {
        if (placement == Placement.WITHOUT_ROLES) {
            return Role.PRIMARY;
        }
        return RoleTags.read(file.descriptor)
                .filter(tag -> !placement.isKnown() || tag.placement.equals(placement.digest()))
                .map(tag -> tag.role).orElse(null);
    }

    /**
     * The role that all of these SSTables have, or had when they were removed; null if it differs.
     */
    Role commonRole(Collection<SSTableReader> files) {
        Set<Role> found = new HashSet<>();
        files.forEach(file -> found.add(currentOrRemovedRole(file)));
        return found.size() == 1 ? found.iterator().next() : null;
    }

    private Role currentOrRemovedRole(SSTableReader file) {
        Role role = manifest.role(file);
        return role != null ? role : removedRoles.role(file);
    }
}
