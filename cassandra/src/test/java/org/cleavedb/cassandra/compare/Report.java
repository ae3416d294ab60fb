package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.ConsistencyLevel;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/** Tables and charts of medians over the repeats, layout by layout. */
final class Report {
    /** The layout that the others are compared with. */
    private static final List<String> BASES = List.of("leveled", "unified_t4", "size_tiered");

    private final Map<String, List<Measurements>> byLayout = new LinkedHashMap<>();
    private final List<ConsistencyLevel> levels;

    Report(List<Measurements> results, List<ConsistencyLevel> levels) {
        this.levels = levels;
        results.forEach(run ->
                byLayout.computeIfAbsent(run.layout, any -> new ArrayList<>()).add(run));
    }

    String tables() {
        return costs() + "\n" + roles() + reads("read", "Point reads") + "\n"
                + reads("scan", "Scans") + "\n" + ratios();
    }

    private String costs() {
        StringBuilder table = new StringBuilder("Writing: bytes per byte that a user wrote and "
                + "copy; lowest to highest total of the repeats; space and files per node\n\n"
                + "| layout | runs | flushed | compacted | total | range | live MB | files "
                + "| CPU µs/write | writes/s |\n|---|---|---|---|---|---|---|---|---|---|\n");
        byLayout.forEach((layout, runs) -> table.append(String.format(
                "| %s | %d | %.2f | %.2f | **%.2f** | %.2f–%.2f | %.0f | %.0f | %.0f | %.0f |%n",
                layout, runs.size(), median(runs, "flushed"), median(runs, "compacted"),
                median(runs, Report::written),
                runs.stream().mapToDouble(Report::written).min().orElse(Double.NaN),
                runs.stream().mapToDouble(Report::written).max().orElse(Double.NaN),
                median(runs, "live_mb_per_node"), median(runs, "files_per_node"),
                median(runs, "cpu_us_per_write"), median(runs, "writes_per_s"))));
        return table.toString();
    }

    /** Stock layouts have no roles. */
    private String roles() {
        Map<String, List<Measurements>> ours = new LinkedHashMap<>(byLayout);
        ours.values().removeIf(runs -> Double.isNaN(median(runs, "split")));
        if (ours.isEmpty()) {
            return "";
        }
        StringBuilder table = new StringBuilder("The same bytes by role\n\n| layout |");
        Counters.ROLES.keySet().forEach(
                role -> table.append(' ').append(role.replace('_', ' ')).append(" |"));
        table.append("\n|---|").append("---|".repeat(Counters.ROLES.size())).append('\n');
        ours.forEach((layout, runs) -> {
            table.append("| ").append(layout).append(" |");
            Counters.ROLES.keySet().forEach(
                    role -> table.append(String.format(" %.2f |", median(runs, role))));
            table.append('\n');
        });
        return table + "\n";
    }

    private String reads(String kind, String title) {
        StringBuilder head = new StringBuilder("| layout |");
        StringBuilder rule = new StringBuilder("|---|");
        for (ConsistencyLevel level : levels) {
            head.append(String.format(" %s: files | p50 µs | p99 µs | per s |", level));
            rule.append("---|---|---|---|");
        }
        StringBuilder table = new StringBuilder(title + ": SSTables that a node merged for one, "
                + "over the nodes that were asked; latency as the client saw it\n\n"
                + head + " primary | redundant | asked primary |\n" + rule + "---|---|---|\n");
        byLayout.forEach((layout, runs) -> {
            table.append("| ").append(layout).append(" |");
            for (ConsistencyLevel level : levels) {
                String name = kind + '_' + level;
                table.append(String.format(" %.2f | %.0f | %.0f | %.0f |",
                        median(runs, name + "_files"), median(runs, name + "_p50"),
                        median(runs, name + "_p99"), median(runs, name + "_per_s")));
            }
            table.append(String.format(" %.2f | %.2f | %.0f %% |%n",
                    median(runs, run -> primary(run, kind)),
                    median(runs, run -> redundant(run, kind)),
                    median(runs, kind + "_ONE_percent_primary")));
        });
        return table.toString();
    }

    /** At ONE, the primary answers. */
    private static double primary(Measurements run, String kind) {
        return run.get(kind + "_ONE_files");
    }

    /** At ALL, the primary and two others do; so the others' share can be told. */
    private static double redundant(Measurements run, String kind) {
        return (3 * run.get(kind + "_ALL_files") - primary(run, kind)) / 2;
    }

    private static double written(Measurements run) {
        return run.get("flushed") + run.get("compacted");
    }

    private String ratios() {
        StringBuilder table = new StringBuilder("Relative to stock layouts: bytes written × · "
                + "files per primary read × · per primary scan ×\n\n| layout |");
        StringBuilder rule = new StringBuilder("|---|");
        for (String base : BASES) {
            table.append(" to ").append(base).append(" |");
            rule.append("---|");
        }
        table.append('\n').append(rule).append('\n');
        byLayout.forEach((layout, runs) -> {
            table.append("| ").append(layout).append(" |");
            for (String base : BASES) {
                List<Measurements> other = byLayout.get(base);
                table.append(other == null ? " – |" : String.format(" %.2f · %.2f · %.2f |",
                        ratio(runs, other, Report::written),
                        ratio(runs, other, run -> primary(run, "read")),
                        ratio(runs, other, run -> primary(run, "scan"))));
            }
            table.append('\n');
        });
        return table.toString();
    }

    private static double ratio(
            List<Measurements> runs, List<Measurements> others, ToDoubleFunction<Measurements> of) {
        return median(runs, of) / median(others, of);
    }

    private static double median(List<Measurements> runs, String name) {
        return median(runs, run -> run.get(name));
    }

    static double median(List<Measurements> runs, ToDoubleFunction<Measurements> of) {
        double[] sorted = runs.stream().mapToDouble(of).sorted().toArray();
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1
                ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    /** A page with the tables, and charts beside it. */
    void write(Path page, String said) throws IOException {
        String name = page.getFileName().toString().replaceFirst("\\.md$", "");
        BarChart bytes = new BarChart("Bytes written per user byte and copy",
                List.of("flushed", "compacted"));
        BarChart files = new BarChart("SSTables that a point read meets on one node",
                List.of("primary", "redundant"));
        BarChart scans = new BarChart("SSTables that a scan meets on one node",
                List.of("primary", "redundant"));
        byLayout.forEach((layout, runs) -> {
            bytes.stacked(layout, median(runs, "flushed"), median(runs, "compacted"));
            files.sideBySide(layout, median(runs, run -> primary(run, "read")),
                    median(runs, run -> redundant(run, "read")));
            scans.sideBySide(layout, median(runs, run -> primary(run, "scan")),
                    median(runs, run -> redundant(run, "scan")));
        });
        String text = "# Layouts of a replicated table, compared\n\n"
                + "`cassandra/cluster compare " + said + "`\n\n" + tables();
        for (Map.Entry<String, BarChart> chart : Map.of(
                "bytes", bytes, "reads", files, "scans", scans).entrySet()) {
            String svg = name + '-' + chart.getKey() + ".svg";
            Files.writeString(page.resolveSibling(svg), chart.getValue().svg());
            text += "\n![" + chart.getKey() + "](" + svg + ")\n";
        }
        Files.writeString(page, text);
    }
}
