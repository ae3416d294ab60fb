package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.Optional;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.Component;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableFormat;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tags on disk. A tag is a custom component of its SSTable, which is what Cassandra offers to
 * compaction strategies: it is listed in the table of contents, taken along into snapshots, and
 * removed with the rest by the transaction log, at the end of a compaction or after a crash.
 *
 * <p>Invariant <b>a tag has no time</b>: it says 1970. The components of a compacted SSTable go one
 * by one, and tags, being custom, after all others. After a crash in between, a node compares the
 * newest time of what is left with that of all there was, and does not start if they differ, as
 * they do when a tag is left that is older than its data. Files of the time 0 do not take part.
 *
 * <p>Invariant <b>a tag is replaced, never written over</b>: snapshots are hard links to it and
 * keep what it said; who reads it meanwhile, as a transfer of the whole SSTable does, reads one or
 * the other as a whole.
 */
final class RoleTags {
    static final Component COMPONENT =
            SSTableFormat.Components.Types.CUSTOM.createComponent("ReplicaRole.txt");
    private static final FileTime NO_TIME = FileTime.fromMillis(0);
    private static final Logger LOG = LoggerFactory.getLogger(RoleTags.class);

    private RoleTags() {
    }

    /** For the component set of a writer that will be given a tag. */
    static List<Component> components() {
        return List.of(COMPONENT);
    }

    /**
     * Writes the tag of a file whose writer has been opened. After a crash here the whole file
     * belongs to no finished transaction, and Cassandra removes it at the next start.
     */
    static void write(Descriptor sstable, RoleTag tag) {
        try {
            store(sstable, tag);
        } catch (IOException failure) {
            warnNotRecorded(sstable, failure);
        }
    }

    /**
     * Tags a live file. A crash here leaves the tag that was there, if any, or one that the table
     * of contents does not list, which is read all the same.
     *
     * <p>Any failure is a warning. Cassandra reports a table of contents that cannot be written as
     * an {@link FSError}, on which {@code disk_failure_policy} may stop the node: too much for a
     * hint, and its own next write to that disk will tell.
     */
    static void attach(SSTableReader sstable, RoleTag tag) {
        try {
            store(sstable.descriptor, tag);
            sstable.addComponents(components());
        } catch (IOException | RuntimeException | FSError failure) {
            warnNotRecorded(sstable.descriptor, failure);
        }
    }

    private static void warnNotRecorded(Descriptor sstable, Throwable failure) {
        LOG.warn("The role of {} cannot be recorded ({}); it will be found out again after a "
                + "restart, by reading its keys", sstable, failure.toString());
    }

    /** The valid tag of a file, if it has one. */
    static Optional<RoleTag> read(Descriptor sstable) {
        Path file = path(sstable);
        try {
            if (Files.size(file) > RoleTag.LONGEST) {
                return unreadable(file, "too long");
            }
            if (!Files.getLastModifiedTime(file).equals(NO_TIME)) {
                Files.setLastModifiedTime(file, NO_TIME);
            }
            Optional<RoleTag> tag = RoleTag.decode(Files.readAllBytes(file));
            return tag.isPresent() ? tag : unreadable(file, "damaged");
        } catch (NoSuchFileException untagged) {
            return Optional.empty();
        } catch (IOException failure) {
            return unreadable(file, failure.toString());
        }
    }

    static boolean hasData(Descriptor sstable) {
        return sstable.fileFor(SSTableFormat.Components.DATA).exists();
    }

    private static void store(Descriptor sstable, RoleTag tag) throws IOException {
        store(path(sstable), sstable.tmpFileFor(COMPONENT).toPath(), tag);
    }

    /** @param made a name beside that of the tag which Cassandra takes for a temporary one */
    static void store(Path file, Path made, RoleTag tag) throws IOException {
        try {
            Files.write(made, tag.encode(), StandardOpenOption.CREATE,
                    StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE,
                    StandardOpenOption.SYNC);
            Files.setLastModifiedTime(made, NO_TIME);
            // A crash before this leaves a file whose name is that of no component, and which
            // Cassandra removes at the next start; after it, the new tag or still the old one.
            Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failure) {
            Files.deleteIfExists(made);
            throw failure;
        }
    }

    private static Optional<RoleTag> unreadable(Path file, String why) {
        LOG.warn("The replica role in {} is {}; the keys of the SSTable will be read to find it "
                + "out again. Its data is not affected", file, why);
        return Optional.empty();
    }

    private static Path path(Descriptor sstable) {
        return sstable.fileFor(COMPONENT).toPath();
    }
}
