package org.cleavedb.cassandra;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Token;

/**
 * Cuts the ring into places. Each source's ranges become groups of about the same width: large
 * ranges are cut, small ones (vnodes) are put together. Groups of one source do not depend on the
 * others, and the result only on the ring and the wanted number.
 */
final class Grouping {
    /** The files of all groups are open at once during a split, so there is a limit. */
    static final int MOST_GROUPS = 128;

    private final IPartitioner partitioner;
    private final List<RingSlice> slices;
    private final TreeMap<Token, Integer> pieces = new TreeMap<>();
    private final List<String> names = new ArrayList<>();

    private Grouping(IPartitioner partitioner, List<RingSlice> slices) {
        this.partitioner = partitioner;
        this.slices = slices;
    }

    static Placement place(
            String node, IPartitioner partitioner, List<RingSlice> slices, int groupsPerSource) {
        if (slices.isEmpty()) {
            return Placement.UNKNOWN;
        }
        Grouping grouping = new Grouping(partitioner, slices);
        Map<String, List<Integer>> bySource = grouping.placeWhole();
        int most = MOST_GROUPS / Math.max(1, bySource.size());
        int groups = Math.max(1, Math.min(groupsPerSource, most));
        bySource.forEach((source, ranges) -> grouping.placeSource(source, ranges, groups));
        return new Placement(node, grouping.pieces, grouping.names, grouping.primaryShare());
    }

    /** Places what has no groups; returns the other slices by their source. */
    private Map<String, List<Integer>> placeWhole() {
        Map<String, List<Integer>> bySource = new TreeMap<>();
        for (int at = 0; at < slices.size(); at++) {
            RingSlice slice = slices.get(at);
            if (slice.primary) {
                pieces.put(slice.end, Placement.PRIMARY);
            } else if (!slice.owned || slice.source.isEmpty()) {
                pieces.put(slice.end, Placement.ELSEWHERE);
            } else {
                bySource.computeIfAbsent(slice.source, any -> new ArrayList<>()).add(at);
            }
        }
        return bySource;
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
                // The group in which the middle of the piece falls, without leaving one out.
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
        for (int at = 0; at < slices.size(); at++) {
            primary += slices.get(at).primary ? width(at) : 0;
            owned += slices.get(at).owned ? width(at) : 0;
        }
        return owned > 0 ? primary / owned : 1;
    }

    private Token cutAt(int at, int cut, int cuts) {
        Token end = slices.get(at).end;
        return cut == cuts ? end : partitioner.split(before(at), end, (double) cut / cuts);
    }

    /** Partitioners that keep the order of keys cannot tell how wide a range is. */
    private boolean canCut() {
        return partitioner.splitter().isPresent();
    }

    private double width(int at) {
        return canCut() ? before(at).size(slices.get(at).end) : 1;
    }

    private Token before(int at) {
        return slices.get((at + slices.size() - 1) % slices.size()).end;
    }
}
