package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.db.compaction.AbstractCompactionStrategy;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * Sorts files by role as they come and go, and tells the layout of the primary copies about its
 * own. A file's role comes from its tag; if that is missing or was told by another ring, from the
 * files it was made of; if that does not say either, an inspection finds it out.
 *
 * <p>Not safe for several threads: the strategy's monitor guards it.
 *
 * <p>Invariant <b>the layout knows exactly the primary files</b>: whatever enters or leaves the
 * role in the book is told to it in the same step.
 */
final class Sides {
    private final PlacementWatch watch;
    private final FileBook<SSTableReader> book;
    private final AbstractCompactionStrategy primary;
    private final TableMetrics metrics;
    private final Departed departed = new Departed();
    private Placement placement = Placement.UNKNOWN;

    Sides(PlacementWatch watch, FileBook<SSTableReader> book, AbstractCompactionStrategy primary,
            TableMetrics metrics) {
        this.watch = watch;
        this.book = book;
        this.primary = primary;
        this.metrics = metrics;
    }

    /** By which the files are sorted. */
    Placement placement() {
        return placement;
    }

    void add(SSTableReader file) {
        follow();
        if (sortIn(file, null)) {
            primary.addSSTable(file);
        }
    }

    void remove(SSTableReader file) {
        Role role = book.role(file);
        departed.left(file, role);
        book.remove(file);
        if (Role.PRIMARY.equals(role)) {
            primary.removeSSTable(file);
        }
    }

    void replace(Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        follow();
        // What is made of files of one role has that role too, whoever made it.
        Role inherited = commonRole(removed);
        List<SSTableReader> goneFromPrimary = new ArrayList<>();
        for (SSTableReader file : removed) {
            if (Role.PRIMARY.equals(roleNowOrBefore(file))) {
                goneFromPrimary.add(file);
            }
            book.remove(file);
            departed.forget(file);
        }
        List<SSTableReader> newToPrimary = new ArrayList<>();
        for (SSTableReader file : added) {
            if (sortIn(file, inherited)) {
                newToPrimary.add(file);
            }
        }
        if (!goneFromPrimary.isEmpty()) {
            primary.replaceSSTables(goneFromPrimary, newToPrimary);
            metrics.primaryCompacted.add(TableMetrics.bytes(newToPrimary));
        } else if (!newToPrimary.isEmpty()) {
            primary.addSSTables(newToPrimary);
        }
    }

    /** An inspection has found the role of a file, or null: it is mixed. */
    void inspected(SSTableReader file, Role role, Placement by) {
        metrics.inspected.increment();
        if (by != placement || !book.isUnsure(file)) {
            return;
        }
        if (role == null) {
            book.putMixed(file);
            return;
        }
        RoleTags.attach(file, new RoleTag(role, placement.digest()));
        book.put(file, role);
        if (book.isPrimary(file)) {
            primary.addSSTable(file);
        }
    }

    /** When the ring has changed, only files that were written by the new one keep their role. */
    Placement follow() {
        departed.tidy();
        Placement now = watch.current();
        if (now == placement) {
            return now;
        }
        placement = now;
        departed.forgetAll();
        for (SSTableReader file : book.all()) {
            boolean wasPrimary = book.isPrimary(file);
            boolean isPrimary = sortIn(file, null);
            if (wasPrimary && !isPrimary) {
                primary.removeSSTable(file);
            } else if (isPrimary && !wasPrimary) {
                primary.addSSTable(file);
            }
        }
        return now;
    }

    /** Enters a file into the book; true if it is primary, which its layout must then be told. */
    private boolean sortIn(SSTableReader file, Role inherited) {
        if (!watch.hasRoles()) {
            book.put(file, Role.PRIMARY);
            return true;
        }
        RoleTag tag = RoleTags.read(file.descriptor).orElse(null);
        // As long as the ring is unknown, a tag is believed.
        boolean valid = tag != null
                && (!placement.isKnown() || tag.placement.equals(placement.digest()));
        if (valid) {
            book.put(file, tag.role);
        } else if (inherited != null && placement.isKnown()) {
            RoleTags.attach(file, new RoleTag(inherited, placement.digest()));
            book.put(file, inherited);
        } else {
            book.putUnsure(file);
        }
        return book.isPrimary(file);
    }

    /** The one role that all of these have or had, or null. */
    private Role commonRole(Collection<SSTableReader> files) {
        Set<Role> found = new HashSet<>();
        files.forEach(file -> found.add(roleNowOrBefore(file)));
        return found.size() == 1 ? found.iterator().next() : null;
    }

    private Role roleNowOrBefore(SSTableReader file) {
        Role role = book.role(file);
        return role != null ? role : departed.role(file);
    }
}
