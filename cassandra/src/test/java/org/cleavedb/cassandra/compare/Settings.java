package org.cleavedb.cassandra.compare;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The settings of a comparison: NAME=VALUE, each with a default and a line of help. */
final class Settings {
    private static final class Setting {
        final String standard;
        final String help;

        Setting(String standard, String help) {
            this.standard = standard;
            this.help = help;
        }
    }

    private static final Map<String, Setting> KNOWN = new LinkedHashMap<>();

    static {
        say("layouts", "", "names from layouts.txt with commas between; all if not said");
        say("layouts_file", "", "another file of layouts");
        say("repeats", "1", "how often each layout is run; medians are printed");
        say("seed", "42", "of the workload; repeat n has seed + n, the same for every layout");
        say("records", "20000", "rows that are inserted");
        say("updates", "-1", "operations that follow; twice the records if not said");
        say("fields", "10", "columns per row");
        say("field", "100", "bytes per column");
        say("update", "one", "`one` field per update, as in YCSB's own workloads, or `all`");
        say("rounds", "20", "parts of the writing; compaction catches up after each");
        say("samples", "3", "states of the table in which is read; the last one is the end");
        say("reads", "6000", "point reads at each level, over all samples");
        say("scans", "600", "scans of 1 to 100 rows at each level, over all samples");
        say("levels", "ONE,ALL", "consistency levels of the reads");
        say("write_level", "ALL", "consistency level of the writes");
        say("clients", "1", "threads that read at the same time");
        say("in_flight", "128", "writes that are on their way at the same time");
        say("file_mb", "4", "size of a file of sorted data, in MiB");
        say("memtable_mb", "32", "space for memtables; a flush is about a third of it");
        say("tokens", "4", "tokens per node");
        say("heap", "512M", "heap of each node");
        say("network", "0", "nodes are 127.0.NETWORK.1 to 3");
        say("results", "", "a file where every run is appended as a line; also read by `report`");
        say("record", "", "a file NAME.md for the figures; charts are put beside it");
        say("way", "repair", "recover: `repair` or `rebuild` after node 3 has lost the table's "
                + "files, `replace` after it has lost all");
        say("whole_files", "true", "recover: files that fit are streamed as they are");
    }

    private final Map<String, String> said = new LinkedHashMap<>();

    private Settings() {
    }

    private static void say(String name, String standard, String help) {
        KNOWN.put(name, new Setting(standard, help));
    }

    static Settings parse(List<String> arguments) {
        Settings settings = new Settings();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts.length != 2 || !KNOWN.containsKey(parts[0])) {
                throw new IllegalArgumentException(
                        "`" + argument + "` is no setting. NAME=VALUE, with\n" + help());
            }
            settings.said.put(parts[0], parts[1]);
        }
        return settings;
    }

    static String help() {
        StringBuilder help = new StringBuilder();
        KNOWN.forEach((name, setting) -> help.append(String.format("  %-13s %s%s%n", name,
                setting.help, setting.standard.isEmpty() ? "" : " (" + setting.standard + ")")));
        return help.toString();
    }

    String text(String name) {
        return said.getOrDefault(name, KNOWN.get(name).standard);
    }

    long number(String name) {
        try {
            return Long.parseLong(text(name));
        } catch (NumberFormatException notANumber) {
            throw new IllegalArgumentException(
                    name + " is a whole number, not `" + text(name) + "`", notANumber);
        }
    }

    int count(String name) {
        return Math.toIntExact(number(name));
    }

    long updates() {
        long updates = number("updates");
        return updates < 0 ? 2 * number("records") : updates;
    }

    /** The settings of this run, with which a reader of the results can repeat it. */
    String asSaid() {
        StringBuilder text = new StringBuilder();
        said.forEach((name, value) -> text.append(text.length() == 0 ? "" : " ")
                .append(name).append('=').append(value));
        return text.toString();
    }
}
