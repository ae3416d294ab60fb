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
 * Which file plays which role, and what should be done next about the redundant ones. Picking is
 * a pure function of the book and of which files are free; nothing here touches a disk.
 *
 * <p>Invariant <b>every file is in one place of the book</b>: one role, or still unsure, or known
 * to be mixed.
 *
 * @param <F> a file; two that are equal are the same
 */
final class FileBook<F> {
    /**
     * A split takes in at most so many times its own bytes of runs, as all that it writes must find
     * room before anything is deleted. It is enough for all but the large merges, which are few.
     */
    private static final long MOST_MERGED_BY_SPLIT = 6;

    private final Map<F, Role> roles = new HashMap<>();
    private final Set<F> unsure = new LinkedHashSet<>();
    private final Set<F> mixed = new LinkedHashSet<>();
    private final Set<F> segments = new LinkedHashSet<>();
    private final TreeMap<String, Set<F>> runs = new TreeMap<>();
    private final ToIntFunction<F> laneOf;

    /** @param laneOf the lane of a segment, see {@link Placement#laneOf} */
    FileBook(ToIntFunction<F> laneOf) {
        this.laneOf = laneOf;
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

    /** Its keys must be looked at. */
    void putUnsure(F file) {
        remove(file);
        unsure.add(file);
    }

    /** It holds primary copies and others. */
    void putMixed(F file) {
        remove(file);
        mixed.add(file);
    }

    void remove(F file) {
        unsure.remove(file);
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

    /** Its role; null if it is unsure, mixed or unknown here. */
    Role role(F file) {
        return roles.get(file);
    }

    boolean isPrimary(F file) {
        return Role.PRIMARY.equals(roles.get(file));
    }

    boolean isUnsure(F file) {
        return unsure.contains(file);
    }

    Set<F> all() {
        Set<F> all = new HashSet<>(roles.keySet());
        all.addAll(unsure);
        all.addAll(mixed);
        return all;
    }

    List<F> files(Role.Kind kind) {
        return roles.entrySet().stream().filter(entry -> entry.getValue().kind == kind)
                .map(Map.Entry::getKey).collect(Collectors.toList());
    }

    List<F> unsure() {
        return new ArrayList<>(unsure);
    }

    List<F> mixed() {
        return new ArrayList<>(mixed);
    }

    /** How many runs each group holds. */
    Map<String, Integer> runsByGroup() {
        Map<String, Integer> sizes = new TreeMap<>();
        runs.forEach((group, files) -> sizes.put(group, files.size()));
        return sizes;
    }

    /** Each group's runs. */
    Collection<Set<F>> groups() {
        return Collections.unmodifiableCollection(runs.values());
    }

    /** A file whose keys should be looked at, or null. */
    F toInspect(Predicate<F> free) {
        return unsure.stream().filter(free).findFirst().orElse(null);
    }

    /** Mixed files to be taken apart, at most so many; empty if there is none. */
    List<F> toSeparate(int most, Predicate<F> free) {
        return mixed.stream().filter(free).limit(most).collect(Collectors.toList());
    }

    /**
     * The oldest segments of each lane, if some lane has enough; otherwise none. Lanes fill alike,
     * and are split together, as a group may have its ranges in several of them.
     *
     * @param most segments of one lane
     */
    List<F> toSplit(int enough, int most, Predicate<F> free) {
        Map<Integer, List<F>> byLane = segments.stream().filter(free)
                .collect(Collectors.groupingBy(laneOf::applyAsInt, TreeMap::new,
                        Collectors.toList()));
        if (byLane.values().stream().noneMatch(lane -> lane.size() >= enough)) {
            return List.of();
        }
        return byLane.values().stream()
                .flatMap(lane -> lane.stream().limit(most)).collect(Collectors.toList());
    }

    /**
     * What to merge in the group that exceeds the ordering most; empty if none does. A group of
     * which some run is busy is left alone: what is written now would soon be merged again.
     */
    List<F> toMerge(int ordering, ToLongFunction<F> size, Predicate<F> free) {
        Set<F> fullest = Set.of();
        for (Set<F> group : runs.values()) {
            if (group.size() > Math.max(ordering, fullest.size())
                    && group.stream().allMatch(free)) {
                fullest = group;
            }
        }
        return fullest.isEmpty()
                ? List.of() : MergeChoice.of(new ArrayList<>(fullest), ordering, size);
    }

    /**
     * Runs that a split should take in, as with the one that it brings their group would exceed the
     * ordering: merged in the same pass, that one is not written twice. Groups for which it costs
     * least come first; the others are merged afterwards.
     *
     * @param split bytes that are split
     * @param groups among how many groups, there and to come
     */
    List<F> toMergeBySplit(int ordering, long split, int groups, ToLongFunction<F> size,
            Predicate<F> free) {
        List<List<F>> chosen = new ArrayList<>();
        for (Set<F> group : runs.values()) {
            if (group.size() >= ordering && group.stream().allMatch(free)) {
                chosen.add(MergeChoice.withOneMore(
                        new ArrayList<>(group), split / groups, ordering, size));
            }
        }
        ToLongFunction<List<F>> sizeOfAll = files -> files.stream().mapToLong(size).sum();
        chosen.sort(Comparator.comparingLong(sizeOfAll));
        List<F> taken = new ArrayList<>();
        long room = MOST_MERGED_BY_SPLIT * split;
        for (List<F> ofGroup : chosen) {
            room -= sizeOfAll.applyAsLong(ofGroup);
            if (room < 0) {
                break;
            }
            taken.addAll(ofGroup);
        }
        return taken;
    }

    /** How many tasks the picks above would find, whatever is busy. */
    int waitingTasks(int enough, int ordering) {
        long overfull = runs.values().stream().filter(group -> group.size() > ordering).count();
        int splits = toSplit(enough, enough, segment -> true).isEmpty() ? 0 : 1;
        return unsure.size() + mixed.size() + splits + (int) overfull;
    }
}
