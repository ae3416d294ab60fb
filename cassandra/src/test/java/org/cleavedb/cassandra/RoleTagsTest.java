package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.util.File;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RoleTagsTest {
    private static final RoleTag BEFORE = new RoleTag(Role.PRIMARY, "0123456789abcdef");
    private static final RoleTag AFTER = new RoleTag(Role.SEGMENT, "fedcba9876543210");

    @TempDir
    Path folder;
    private Path tag;
    private Path made;

    @BeforeAll
    static void prepareCassandra() {
        DatabaseDescriptor.clientInitialization();
    }

    @BeforeEach
    void nameFiles() throws IOException {
        Path table = folder.resolve("k").resolve("t-0123456789abcdef0123456789abcdef");
        Files.createDirectories(table);
        Descriptor sstable = Descriptor.fromFile(new File(table.resolve("nb-1-big-Data.db")));
        tag = sstable.fileFor(RoleTags.COMPONENT).toPath();
        made = sstable.tmpFileFor(RoleTags.COMPONENT).toPath();
    }

    /** Snapshots are hard links; an overwritten tag would change its role in them, too. */
    @Test
    void aSnapshotKeepsTheTagThatItWasMadeOf() throws IOException {
        RoleTags.store(tag, made, BEFORE);
        Path snapshot = Files.createLink(folder.resolve("snapshot"), tag);
        RoleTags.store(tag, made, AFTER);
        assertArrayEquals(BEFORE.encode(), Files.readAllBytes(snapshot));
        assertArrayEquals(AFTER.encode(), Files.readAllBytes(tag));
        assertEquals(0, Files.getLastModifiedTime(tag).toMillis());
        assertEquals(List.of(tag), files());
    }

    /** At a start, Cassandra ignores files of no component and removes temporary ones. */
    @Test
    void cassandraTakesTheTemporaryNameForNoComponent() {
        assertNotNull(SSTable.tryComponentFromFilename(new File(tag)));
        assertNull(SSTable.tryComponentFromFilename(new File(made)));
        assertEquals(tag.getParent(), made.getParent());
        assertEquals(tag.getFileName() + Descriptor.TMP_EXT, made.getFileName().toString());
    }

    @Test
    void whatACrashHasLeftIsNotInTheWay() throws IOException {
        Files.write(made, new byte[2 * RoleTag.LENGTH]);
        RoleTags.store(tag, made, AFTER);
        assertArrayEquals(AFTER.encode(), Files.readAllBytes(tag));
        assertEquals(List.of(tag), files());
    }

    @Test
    void aTagThatCannotBePutInItsPlaceLeavesNothingBehind() throws IOException {
        Files.createDirectories(tag.resolve("in the way"));
        assertThrows(IOException.class, () -> RoleTags.store(tag, made, AFTER));
        assertFalse(Files.exists(made));
    }

    private List<Path> files() throws IOException {
        try (Stream<Path> files = Files.list(tag.getParent())) {
            return files.collect(Collectors.toList());
        }
    }
}
