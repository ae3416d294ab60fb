package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.function.ToIntFunction;
import java.util.function.ToLongFunction;
import java.util.stream.Collectors;

/**
 * The manifest of SSTables by role, which also picks candidates for inspections and for compactions
 * of redundant copies. The picks are pure functions of the manifest and of which SSTables are free;
 * no method does any I/O.
 *
 * <p>Invariant <b>every SSTable is in one state</b>: it has one role, or it is unclassified, or it
 * is known to be mixed.
 *
 * @param <F> the type of an SSTable, with a meaningful {@code equals}
 */
final class RoleManifest<F> {
    /**
     * The most bytes of runs that a split may merge, as a multiple of the bytes that it splits. The
     * disk must hold the whole output before any input is deleted. This limit leaves out large
     * merges only, which are few.
     */
    private static final long MAX_MERGE_FACTOR = 6;

    private final Map<F, Role> roles = new HashMap<>();
    private final Set<F> unclassified = new LinkedHashSet<>();
    private final Set<F> mixed = new LinkedHashSet<>();
    private final Set<F> segments = new LinkedHashSet<>();
    private final TreeMap<String, Set<F>> runs = new TreeMap<>();
    private final ToIntFunction<F> shardOf;

    /** @param shardOf returns the shard of a segment, see {@link Placement#shardOf} */
    RoleManifest(ToIntFunction<F> shardOf) {
        this.shardOf = shardOf;
    }

    void put(F file, Role role) {
        remove(file);
        roles.put(file, role);
        if (role.kind == Role.Kind.SEGMENT) {
            segments.add(file);
        } else if (role.kind == Role.Kind.RUN) {
            runs.computeIfAbsent(role.group, any -> new LinkedHashSet<>()).add(file);
        }
    }

    /** Enters an SSTable whose keys must be inspected to find its role. */
    void putUnclassified(F file) {
        remove(file);
        unclassified.add(file);
    }

    /** Enters an SSTable that holds primary copies and redundant ones. */
    void putMixed(F file) {
        remove(file);
        mixed.add(file);
    }

    void remove(F file) {
        unclassified.remove(file);
        mixed.remove(file);
        segments.remove(file);
        Role role = roles.remove(file);
        if (role != null && role.kind == Role.Kind.RUN) {
            Set<F> group = runs.get(role.group);
            group.remove(file);
            if (group.isEmpty()) {
                runs.remove(role.group);
            }
        }
    }

    /** The role of an SSTable; null if it is unclassified, mixed or not in the manifest. */
    Role role(F file) {
        return roles.get(file);
    }

    boolean isPrimary(F file) {
        return Role.PRIMARY.equals(roles.get(file));
    }

    boolean isUnclassified(F file) {
        return unclassified.contains(file);
    }

    Set<F> all() {
        Set<F> all = new HashSet<>(roles.keySet());
        all.addAll(unclassified);
        all.addAll(mixed);
        return all;
    }

    List<F> files(Role.Kind kind) {
        return roles.entrySet().stream().filter(entry -> entry.getValue().kind == kind)
                .map(Map.Entry::getKey).collect(Collectors.toList());
    }

    List<F> unclassified() {
        return new ArrayList<>(unclassified);
    }

    List<F> mixed() {
        return new ArrayList<>(mixed);
    }

    /** The number of runs in each group. */
    Map<String, Integer> runsByGroup() {
        Map<String, Integer> sizes = new TreeMap<>();
        runs.forEach((group, files) -> sizes.put(group, files.size()));
        return sizes;
    }

    /** The runs of each group. */
    Collection<Set<F>> groups() {
        return Collections.unmodifiableCollection(runs.values());
    }

    /** Picks an SSTable to inspect, or null. */
    F pickForInspection(Predicate<F> free) {
        return unclassified.stream().filter(free).findFirst().orElse(null);
    }

    /** Picks mixed SSTables to separate, at most {@code most}. */
    List<F> pickMixed(int most, Predicate<F> free) {
        return mixed.stream().filter(free).limit(most).collect(Collectors.toList());
    }

    /**
     * Picks the oldest segments of each shard if some shard has enough of them, and nothing
     * otherwise. Shards fill at the same rate. They are split together, since the ranges of a group
     * may lie in several of them.
     *
     * @param enough the number of segments in one shard that triggers a split
     * @param most the most segments of each shard
     */
    List<F> pickSegments(int enough, int most, Predicate<F> free) {
        Map<Integer, List<F>> byShard = segments.stream().filter(free)
                .collect(Collectors.groupingBy(shardOf::applyAsInt, TreeMap::new,
                        Collectors.toList()));
        if (byShard.values().stream().noneMatch(shard -> shard.size() >= enough)) {
            return List.of();
        }
        return byShard.values().stream()
                .flatMap(shard -> shard.stream().limit(most)).collect(Collectors.toList());
    }

    /**
     * Picks runs to merge in the group that exceeds the ordering most, and nothing if no group
     * does. A group with a busy run is passed over, as the output would soon be merged again.
     */
    List<F> pickMerge(int ordering, ToLongFunction<F> size, Predicate<F> free) {
        Set<F> fullest = Set.of();
        for (Set<F> group : runs.values()) {
            if (group.size() > Math.max(ordering, fullest.size())
                    && group.stream().allMatch(free)) {
                fullest = group;
            }
        }
        return fullest.isEmpty()
                ? List.of() : MergePolicy.of(new ArrayList<>(fullest), ordering, size);
    }

    /**
     * Picks runs that a split should merge with its output. A split adds one run to each group. In
     * a group that would then exceed the ordering, the new run would be written twice if it were
     * merged afterwards. The cheapest groups are picked first; the others are merged afterwards.
     *
     * @param split the bytes of the segments that are split
     * @param groups the number of groups, with and without runs
     */
    List<F> pickRunsForSplit(int ordering, long split, int groups, ToLongFunction<F> size,
            Predicate<F> free) {
        List<List<F>> chosen = new ArrayList<>();
        for (Set<F> group : runs.values()) {
            if (group.size() >= ordering && group.stream().allMatch(free)) {
                chosen.add(MergePolicy.withOneMore(
                        new ArrayList<>(group), split / groups, ordering, size));
            }
        }
        ToLongFunction<List<F>> sizeOfAll = files -> files.stream().mapToLong(size).sum();
        chosen.sort(Comparator.comparingLong(sizeOfAll));
        List<F> taken = new ArrayList<>();
        long room = MAX_MERGE_FACTOR * split;
        for (List<F> ofGroup : chosen) {
            room -= sizeOfAll.applyAsLong(ofGroup);
            if (room < 0) {
                break;
            }
            taken.addAll(ofGroup);
        }
        return taken;
    }

    /** The number of tasks that the picks would find if no SSTable were busy. */
    int pendingTasks(int enough, int ordering) {
        long overfull = runs.values().stream().filter(group -> group.size() > ordering).count();
        int splits = pickSegments(enough, enough, segment -> true).isEmpty() ? 0 : 1;
        return unclassified.size() + mixed.size() + splits + (int) overfull;
    }
}
