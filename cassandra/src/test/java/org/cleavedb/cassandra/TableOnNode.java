package org.cleavedb.cassandra;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.cleavedb.cassandra.cluster.NodeControl;
import org.cleavedb.cassandra.cluster.NodeLayout;

/** The files of one table on one node, as they lie on the disk, with the tags beside them. */
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
        Path file = tagFile(data);
        return Files.exists(file) ? RoleTag.decode(Files.readAllBytes(file)) : Optional.empty();
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
    long mostRuns() throws IOException {
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
                try (Stream<Path> files = Files.find(folder, 2, this::isOurs)) {
                    files.filter(file -> file.toString().endsWith(suffix)).forEach(found::add);
                }
            }
        }
        return found;
    }

    private boolean isOurs(Path file, BasicFileAttributes attributes) {
        return attributes.isRegularFile()
                && file.getParent().getFileName().toString().startsWith(table + "-");
    }
}
