package org.cleavedb.cassandra.compare;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A compaction strategy with its options that is compared; {@code layouts.txt} lists them. */
final class Layout {
    private static final String KNOWN = "/layouts.txt";

    final String name;
    /** The compaction map of CQL. */
    final String compaction;

    private Layout(String name, String compaction) {
        this.name = name;
        this.compaction = compaction;
    }

    /** The layouts that the settings name, in that order; all if they name none. */
    static List<Layout> chosen(Settings settings) throws IOException {
        Map<String, Layout> known = parse(text(settings), settings.number("file_mb"));
        String names = settings.text("layouts");
        if (names.isEmpty()) {
            return new ArrayList<>(known.values());
        }
        List<Layout> chosen = new ArrayList<>();
        for (String name : names.split(",")) {
            Layout layout = known.get(name.trim());
            if (layout == null) {
                throw new IllegalArgumentException("no layout is called `" + name
                        + "`; there are: " + String.join(", ", known.keySet()));
            }
            chosen.add(layout);
        }
        return chosen;
    }

    private static String text(Settings settings) throws IOException {
        String file = settings.text("layouts_file");
        if (!file.isEmpty()) {
            return Files.readString(Path.of(file));
        }
        try (InputStream known = Layout.class.getResourceAsStream(KNOWN)) {
            return new String(known.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    static Map<String, Layout> parse(String text, long fileMegabytes) {
        Map<String, Layout> layouts = new LinkedHashMap<>();
        Arrays.stream(text.split("\n")).map(String::trim)
                .filter(line -> !line.isEmpty() && !line.startsWith("#"))
                .forEach(line -> {
                    String[] parts = line.split("=", 2);
                    if (parts.length != 2 || !parts[1].trim().startsWith("{")) {
                        throw new IllegalArgumentException("a layout is a line NAME = {COMPACTION "
                                + "MAP OF CQL}, not `" + line + "`");
                    }
                    String map = parts[1].trim()
                            .replace("${file_mb}", Long.toString(fileMegabytes));
                    layouts.put(parts[0].trim(), new Layout(parts[0].trim(), map));
                });
        return layouts;
    }
}
