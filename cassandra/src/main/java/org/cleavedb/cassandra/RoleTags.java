package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.List;
import java.util.Optional;
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
     * Writes the tag of a file whose writer has been opened. A crash here leaves a torn tag, which
     * is invalid; but the whole file then belongs to no finished transaction, and Cassandra removes
     * it at the next start.
     */
    static void write(Descriptor sstable, RoleTag tag) {
        try {
            store(sstable, tag);
        } catch (IOException failure) {
            LOG.warn("The role of {} cannot be recorded ({}); it will be found out again after a "
                    + "restart, by reading its keys", sstable, failure.toString());
        }
    }

    /**
     * Tags a live file. A crash here leaves a torn tag or one that the table of contents does not
     * list; the first is found out anew, the second is read all the same.
     */
    static void attach(SSTableReader sstable, RoleTag tag) {
        try {
            store(sstable.descriptor, tag);
            sstable.addComponents(components());
        } catch (IOException | RuntimeException failure) {
            LOG.warn("The role of {} cannot be recorded ({}); it will be found out again after a "
                    + "restart, by reading its keys", sstable.descriptor, failure.toString());
        }
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
        Path file = path(sstable);
        Files.write(file, tag.encode(), StandardOpenOption.CREATE,
                StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE,
                StandardOpenOption.SYNC);
        // A crash here leaves a tag with a time, which is taken away when it is read at the start.
        Files.setLastModifiedTime(file, NO_TIME);
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
