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
 * Sorts files by role as they come and go, and tells each stock layout about its own. A file's role
 * comes from its tag; if that is missing or was told by another ring, from the files it was made
 * of; if that does not say either, an inspection finds it out.
 *
 * <p>Not safe for several threads: the strategy's monitor guards it.
 *
 * <p>Invariant <b>a layout knows exactly the files of its role</b>: whatever enters or leaves the
 * role in the book is told to it in the same step.
 */
final class Sides {
    private final Supplier<Placement> ring;
    private final FileBook<SSTableReader> book;
    private final Layouts layouts;
    private final TableMetrics metrics;
    private final ReadTally reads;
    private final Departed departed = new Departed();
    private Placement placement = Placement.UNKNOWN;
    private long mostUnsortedBytes;

    Sides(Supplier<Placement> ring, FileBook<SSTableReader> book, Layouts layouts,
            TableMetrics metrics) {
        this.ring = ring;
        this.book = book;
        this.layouts = layouts;
        this.metrics = metrics;
        reads = new ReadTally(metrics);
    }

    /** By which the files are sorted. */
    Placement placement() {
        return placement;
    }

    void add(SSTableReader file) {
        follow();
        AbstractCompactionStrategy layout = sortIn(file, roleByTag(file));
        if (layout != null) {
            layout.addSSTable(file);
        }
    }

    void remove(SSTableReader file) {
        Role role = book.role(file);
        departed.left(file, role);
        reads.end(file, role);
        book.remove(file);
        AbstractCompactionStrategy layout = layouts.of(role);
        if (layout != null) {
            layout.removeSSTable(file);
        }
    }

    /**
     * Disks are read before anything is changed, and written to after all is: between the moment
     * at which the inputs are forgotten and the one at which a layout knows the outputs, nothing
     * can fail that would hide these from it until a restart.
     */
    void replace(Collection<SSTableReader> removed, Collection<SSTableReader> added) {
        follow();
        // What is made of files of one role has that role too, whoever made it.
        Role inherited = placement.isKnown() ? commonRole(removed) : null;
        Map<SSTableReader, Role> tagged = new HashMap<>();
        added.forEach(file -> tagged.put(file, roleByTag(file)));
        Map<AbstractCompactionStrategy, List<SSTableReader>> gone = new LinkedHashMap<>();
        for (SSTableReader file : removed) {
            Role role = roleNowOrBefore(file);
            enter(gone, layouts.of(role), file);
            reads.end(file, role);
            book.remove(file);
            departed.forget(file);
        }
        Map<AbstractCompactionStrategy, List<SSTableReader>> come = new LinkedHashMap<>();
        for (SSTableReader file : added) {
            Role role = tagged.get(file);
            enter(come, sortIn(file, role != null ? role : inherited), file);
        }
        gone.forEach((layout, files) -> {
            List<SSTableReader> made = come.getOrDefault(layout, List.of());
            layout.replaceSSTables(files, made);
            metrics.compacted(layout == layouts.primary(), made);
        });
        come.keySet().removeAll(gone.keySet());
        come.forEach(AbstractCompactionStrategy::addSSTables);
        if (inherited != null) {
            added.stream().filter(file -> tagged.get(file) == null)
                    .forEach(file -> inherited(file, inherited));
        }
    }

    private void inherited(SSTableReader file, Role role) {
        RoleTags.attach(file, new RoleTag(role, placement.digest()));
        if (layouts.of(role) == null) {
            metrics.wrote(Purpose.REWRITE, List.of(file), 0);
        }
    }

    private static void enter(Map<AbstractCompactionStrategy, List<SSTableReader>> files,
            AbstractCompactionStrategy layout, SSTableReader file) {
        if (layout != null) {
            files.computeIfAbsent(layout, any -> new ArrayList<>()).add(file);
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
        reads.credit(file, null);
        book.put(file, role);
        AbstractCompactionStrategy layout = layouts.of(role);
        if (layout != null) {
            layout.addSSTable(file);
        }
        // A crash before this has the file inspected once more.
        RoleTags.attach(file, new RoleTag(role, placement.digest()));
    }

    /** When the ring has changed, only files that were written by the new one keep their role. */
    Placement follow() {
        departed.tidy();
        Placement now = ring.get();
        if (now == placement) {
            return now;
        }
        placement = now;
        departed.forgetAll();
        // All are sorted anew, so those that were unsure before would count twice.
        mostUnsortedBytes = 0;
        for (SSTableReader file : book.all()) {
            AbstractCompactionStrategy before = layouts.of(book.role(file));
            AbstractCompactionStrategy after = sortIn(file, roleByTag(file));
            if (before != after && before != null) {
                before.removeSSTable(file);
            }
            if (before != after && after != null) {
                after.addSSTable(file);
            }
        }
        return now;
    }

    /** How much there was to be sorted since all was; tells how far it has come. */
    long mostUnsortedBytes() {
        if (book.unsure().isEmpty() && book.mixed().isEmpty()) {
            mostUnsortedBytes = 0;
        }
        return mostUnsortedBytes;
    }

    /** Credits what was read up to now. */
    void tallyReads() {
        book.all().forEach(file -> reads.credit(file, book.role(file)));
    }

    /** Enters a file into the book; returns the layout that must be told, if there is one. */
    private AbstractCompactionStrategy sortIn(SSTableReader file, Role role) {
        reads.begin(file);
        reads.credit(file, book.role(file));
        if (role != null) {
            book.put(file, role);
        } else {
            book.putUnsure(file);
            mostUnsortedBytes += file.onDiskLength();
        }
        return layouts.of(role);
    }

    /** The role that a file has by its tag, or null; as long as the ring is unknown, any counts. */
    private Role roleByTag(SSTableReader file) {
        if (placement == Placement.WITHOUT_ROLES) {
            return Role.PRIMARY;
        }
        return RoleTags.read(file.descriptor)
                .filter(tag -> !placement.isKnown() || tag.placement.equals(placement.digest()))
                .map(tag -> tag.role).orElse(null);
    }

    /** The one role that all of these have or had, or null. */
    Role commonRole(Collection<SSTableReader> files) {
        Set<Role> found = new HashSet<>();
        files.forEach(file -> found.add(roleNowOrBefore(file)));
        return found.size() == 1 ? found.iterator().next() : null;
    }

    private Role roleNowOrBefore(SSTableReader file) {
        Role role = book.role(file);
        return role != null ? role : departed.role(file);
    }
}
