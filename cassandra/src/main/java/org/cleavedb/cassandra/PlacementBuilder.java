package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Token;

/**
 * The builder of placements: it divides the ring into places. The ranges of each source node become
 * groups of about the same width. Large ranges are cut; small ones, as with vnodes, are combined.
 * The groups of one source node do not depend on the other sources, so that a change of the ring
 * moves as few SSTables as possible.
 */
final class PlacementBuilder {
    /** The most groups of a table: each split writes one SSTable per group. */
    static final int MAX_GROUPS = 128;

    private final IPartitioner partitioner;
    private final List<RingRange> ranges;
    private final TreeMap<Token, Integer> pieces = new TreeMap<>();
    private final List<String> names = new ArrayList<>();

    private PlacementBuilder(IPartitioner partitioner, List<RingRange> ranges) {
        this.partitioner = partitioner;
        this.ranges = ranges;
    }

    static Placement build(
            String node, IPartitioner partitioner, List<RingRange> ranges, int groupsPerSource) {
        if (ranges.isEmpty()) {
            return Placement.UNKNOWN;
        }
        PlacementBuilder builder = new PlacementBuilder(partitioner, ranges);
        Map<String, List<Integer>> bySource = limited(builder.placeWhole());
        int most = MAX_GROUPS / Math.max(1, bySource.size());
        int groups = Math.max(1, Math.min(groupsPerSource, most));
        bySource.forEach((source, parts) -> builder.placeSource(source, parts, groups));
        return new Placement(node, builder.pieces, builder.names, builder.primaryShare());
    }

    /** Places ranges that belong to no group; returns the others by their source node. */
    private Map<String, List<Integer>> placeWhole() {
        Map<String, List<Integer>> bySource = new TreeMap<>();
        for (int at = 0; at < ranges.size(); at++) {
            RingRange range = ranges.get(at);
            if (range.primary) {
                pieces.put(range.end, Placement.PRIMARY);
            } else if (!range.owned || range.source.isEmpty()) {
                pieces.put(range.end, Placement.ELSEWHERE);
            } else {
                bySource.computeIfAbsent(range.source, any -> new ArrayList<>()).add(at);
            }
        }
        return bySource;
    }

    /**
     * Puts the source nodes into buckets, each of which is treated like one node, if there are more
     * nodes than groups. The bucket of a node does not depend on the other nodes.
     */
    private static Map<String, List<Integer>> limited(Map<String, List<Integer>> bySource) {
        if (bySource.size() <= MAX_GROUPS) {
            return bySource;
        }
        Map<String, List<Integer>> buckets = new TreeMap<>();
        bySource.forEach((source, parts) -> buckets.computeIfAbsent(
                "sources " + Math.floorMod(source.hashCode(), MAX_GROUPS),
                any -> new ArrayList<>()).addAll(parts));
        buckets.values().forEach(Collections::sort);
        return buckets;
    }

    private void placeSource(String source, List<Integer> ranges, int groups) {
        double whole = ranges.stream().mapToDouble(this::width).sum();
        double wanted = whole / groups;
        int firstPlace = Placement.ELSEWHERE + 1 + names.size();
        int used = 0;
        double passed = 0;
        for (int at : ranges) {
            int cuts = canCut() ? (int) Math.max(1, Math.round(width(at) / wanted)) : 1;
            double width = width(at) / cuts;
            for (int cut = 1; cut <= cuts; cut++) {
                // The group that contains the middle of the piece, but no group is skipped.
                int group = Math.min((int) ((passed + width / 2) / wanted), groups - 1);
                if (group >= used) {
                    used++;
                }
                pieces.put(cutAt(at, cut, cuts), firstPlace + used - 1);
                passed += width;
            }
        }
        for (int group = 0; group < used; group++) {
            names.add(source + "#" + group);
        }
    }

    private double primaryShare() {
        double primary = 0;
        double owned = 0;
        for (int at = 0; at < ranges.size(); at++) {
            primary += ranges.get(at).primary ? width(at) : 0;
            owned += ranges.get(at).owned ? width(at) : 0;
        }
        return owned > 0 ? primary / owned : 1;
    }

    private Token cutAt(int at, int cut, int cuts) {
        Token end = ranges.get(at).end;
        return cut == cuts ? end : partitioner.split(before(at), end, (double) cut / cuts);
    }

    /** False for partitioners that keep the order of keys; their ranges have no known width. */
    private boolean canCut() {
        return partitioner.splitter().isPresent();
    }

    private double width(int at) {
        return canCut() ? before(at).size(ranges.get(at).end) : 1;
    }

    private Token before(int at) {
        return ranges.get((at + ranges.size() - 1) % ranges.size()).end;
    }
}
