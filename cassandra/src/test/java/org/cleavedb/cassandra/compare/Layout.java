package org.cleavedb.cassandra.compare;

import java.util.List;

/** A way to compact that is compared. Files are small, so that little data makes many of them. */
final class Layout {
    private static final String OURS =
            "'class': 'org.cleavedb.cassandra.ReplicaDecouplingStrategy', 'settle_seconds': '0', "
            + "'sstable_size_in_mb': '4', ";

    static final List<Layout> ALL = List.of(
            new Layout("leveled",
                    "'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '4'"),
            new Layout("unified_l10",
                    "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'L10', "
                    + "'target_sstable_size': '4MiB'"),
            new Layout("unified_t4",
                    "'class': 'UnifiedCompactionStrategy', 'scaling_parameters': 'T4', "
                    + "'target_sstable_size': '4MiB'"),
            new Layout("size_tiered", "'class': 'SizeTieredCompactionStrategy'"),
            new Layout("ours_s1", OURS + "'ordering': '1'"),
            new Layout("ours_s2", OURS + "'ordering': '2'"),
            new Layout("ours_s4", OURS + "'ordering': '4'"),
            new Layout("ours_s8", OURS + "'ordering': '8'"),
            new Layout("ours_s16", OURS + "'ordering': '16'"));

    final String name;
    final String compaction;

    private Layout(String name, String compaction) {
        this.name = name;
        this.compaction = "{" + compaction + "}";
    }

    static Layout named(String wanted) {
        return ALL.stream().filter(layout -> layout.name.equals(wanted)).findFirst().orElseThrow(
                () -> new IllegalArgumentException("no layout is called `" + wanted + "`"));
    }
}
