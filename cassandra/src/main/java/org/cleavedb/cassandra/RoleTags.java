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
 * The reader and writer of tags on disk. A tag is a custom component of its SSTable, as Cassandra
 * offers it to compaction strategies: the table of contents lists it, snapshots include it, and the
 * transaction log removes it with the other components, at the end of a compaction or after a
 * crash.
 *
 * <p>Invariant <b>the modification time of a tag is 0</b>. Cassandra deletes the components of a
 * compacted SSTable one by one, custom ones last. After a crash during the deletion, a starting
 * node compares the newest modification time of the remaining files with the one in its transaction
 * log, and refuses to start if they differ. A tag that is older than its data would cause just
 * that; files with the time 0 are left out of the comparison.
 *
 * <p>Invariant <b>a tag is replaced, never overwritten</b>. Snapshots are hard links to it and keep
 * the old content. A concurrent reader, such as a stream of the whole SSTable, reads either the old
 * or the new content.
 */
final class RoleTags {
    static final Component COMPONENT =
            SSTableFormat.Components.Types.CUSTOM.createComponent("ReplicaRole.txt");
    private static final FileTime NO_TIME = FileTime.fromMillis(0);
    private static final Logger LOG = LoggerFactory.getLogger(RoleTags.class);

    private RoleTags() {
    }

    /** The components that a writer must announce if its SSTable gets a tag. */
    static List<Component> components() {
        return List.of(COMPONENT);
    }

    /**
     * Writes the tag of an SSTable whose writer is open. After a crash here, the SSTable belongs to
     * no finished transaction, and Cassandra removes it with its tag at the next start.
     */
    static void write(Descriptor sstable, RoleTag tag) {
        try {
            store(sstable, tag);
        } catch (IOException failure) {
            warnNotRecorded(sstable, failure);
        }
    }

    /**
     * Tags a live SSTable. A crash here leaves the previous tag, if any, or a tag that the table of
     * contents does not list; {@link #read} accepts both.
     *
     * <p>Every failure is logged as a warning and not thrown. Cassandra reports a table of contents
     * that cannot be written as an {@link FSError}, upon which {@code disk_failure_policy} may stop
     * the node. A hint is not worth that, and a broken disk shows in Cassandra's own next write.
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
        LOG.warn("The replica role of {} cannot be recorded ({}). After a restart, the node will "
                + "inspect the keys of this SSTable to find its role again", sstable,
                failure.toString());
    }

    /** The tag of an SSTable; empty if it is missing or invalid. */
    static Optional<RoleTag> read(Descriptor sstable) {
        Path file = path(sstable);
        try {
            if (Files.size(file) > RoleTag.MAX_LENGTH) {
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

    /** @param made a file name in the same folder that Cassandra takes for a temporary file */
    static void store(Path file, Path made, RoleTag tag) throws IOException {
        try {
            Files.write(made, tag.encode(), StandardOpenOption.CREATE,
                    StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE,
                    StandardOpenOption.SYNC);
            Files.setLastModifiedTime(made, NO_TIME);
            // A crash before the move leaves a temporary file, which Cassandra removes at the next
            // start. A crash after it leaves the new tag or the old one, both complete.
            Files.move(made, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException failure) {
            Files.deleteIfExists(made);
            throw failure;
        }
    }

    private static Optional<RoleTag> unreadable(Path file, String why) {
        LOG.warn("The replica role in {} is {}. The node will inspect the keys of the SSTable to "
                + "find its role again; its data is not affected", file, why);
        return Optional.empty();
    }

    private static Path path(Descriptor sstable) {
        return sstable.fileFor(COMPONENT).toPath();
    }
}
