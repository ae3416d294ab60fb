package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.cleavedb.cassandra.cluster.NodeLayout;

/** The SSTables of one table on one node, with their tags, as found on disk. */
final class TableOnNode {
    private static final String DATA = "-Data.db";
    private static final String TAG = "-ReplicaRole.txt";

    private final NodeLayout layout;
    private final String keyspace;
    private final String table;

    TableOnNode(NodeLayout layout, String keyspace, String table) {
        this.layout = layout;
        this.keyspace = keyspace;
        this.table = table;
    }

    /** Every data file with its tag, if it has a valid one. */
    Map<Path, Optional<RoleTag>> tags() throws IOException {
        Map<Path, Optional<RoleTag>> tags = new TreeMap<>();
        for (Path data : filesEndingWith(DATA)) {
            tags.put(data, tag(data));
        }
        return tags;
    }

    Optional<RoleTag> tag(Path data) throws IOException {
        try {
            return RoleTag.decode(Files.readAllBytes(tagFile(data)));
        } catch (NoSuchFileException gone) {
            return Optional.empty();
        }
    }

    Path tagFile(Path data) {
        String name = data.getFileName().toString();
        return data.resolveSibling(name.substring(0, name.length() - DATA.length()) + TAG);
    }

    long count(Role.Kind kind) throws IOException {
        return tags().values().stream()
                .filter(tag -> tag.isPresent() && tag.get().role.kind == kind).count();
    }

    /** Every file has a valid tag. */
    boolean allTagged() throws IOException {
        return tags().values().stream().allMatch(Optional::isPresent);
    }

    /** The most runs that any group has. */
    long maxRuns() throws IOException {
        return tags().values().stream().flatMap(Optional::stream)
                .filter(tag -> tag.role.kind == Role.Kind.RUN)
                .collect(Collectors.groupingBy(tag -> tag.role.group, Collectors.counting()))
                .values().stream().max(Long::compare).orElse(0L);
    }

    /** Tags without data. */
    List<Path> strayTags() throws IOException {
        List<Path> strays = new ArrayList<>();
        for (Path tag : filesEndingWith(TAG)) {
            String name = tag.getFileName().toString();
            String base = name.substring(0, name.length() - TAG.length());
            if (!Files.exists(tag.resolveSibling(base + DATA))) {
                strays.add(tag);
            }
        }
        return strays;
    }

    /** The data files that may hold this key, as the node sees it. */
    @SuppressWarnings("unchecked")
    List<Path> filesOf(NodeControl control, String key) {
        List<String> names = (List<String>) control.invoke(
                "org.apache.cassandra.db:type=Tables,keyspace=" + keyspace + ",table=" + table,
                "getSSTablesForKey", new Object[] {key}, new String[] {"java.lang.String"});
        return names.stream().map(Path::of).collect(Collectors.toList());
    }

    private List<Path> filesEndingWith(String suffix) throws IOException {
        List<Path> found = new ArrayList<>();
        for (Path disk : layout.disks()) {
            Path folder = disk.resolve(keyspace);
            if (Files.exists(folder)) {
                Files.walkFileTree(folder, Set.of(), 2, new Collector(suffix, found));
            }
        }
        return found;
    }

    /** Collects files of the table while the node makes and removes some. */
    private final class Collector extends SimpleFileVisitor<Path> {
        private final String suffix;
        private final List<Path> found;

        Collector(String suffix, List<Path> found) {
            this.suffix = suffix;
            this.found = found;
        }

        @Override
        public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            if (isOurs(file, attributes) && file.toString().endsWith(suffix)) {
                found.add(file);
            }
            return FileVisitResult.CONTINUE;
        }

        /** Ignores a file that was removed after it was listed. */
        @Override
        public FileVisitResult visitFileFailed(Path file, IOException error) throws IOException {
            if (error instanceof NoSuchFileException) {
                return FileVisitResult.CONTINUE;
            }
            throw error;
        }
    }

    private boolean isOurs(Path file, BasicFileAttributes attributes) {
        return attributes.isRegularFile()
                && file.getParent().getFileName().toString().startsWith(table + "-");
    }
}
