package org.cleavedb.cassandra;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;

/**
 * Where each partition of a table belongs on this node: to the primary side, or to one group of
 * the local log of one source node. Immutable, and the same on every start as long as the ring is
 * the same.
 *
 * <p>A place is a small number: {@link #PRIMARY}, {@link #ELSEWHERE} for what the ring gives to
 * other nodes (left over until cleanup, or written ahead while a node joins), or a group. Groups
 * never share a token, so each can be merged alone.
 *
 * <p>Invariant <b>every token has one place</b>: a partition is found on one side only, so that a
 * side can be compacted without the other.
 */
final class Placement {
    static final int PRIMARY = 0;
    static final int ELSEWHERE = 1;
    /** A flush writes a segment per lane, so there is a limit. */
    static final int MOST_LANES = 16;
    private static final int DIGEST_BYTES = 8;

    /** Nothing is known about the ring. */
    static final Placement UNKNOWN = new Placement("", new TreeMap<>(), List.of(), 1);
    /** Copies have no roles: all are laid out as primary ones are. */
    static final Placement WITHOUT_ROLES =
            new Placement("without roles", new TreeMap<>(), List.of(), 1);

    private final Token[] ends;
    private final int[] places;
    /** By position in the order of tokens; one more than pieces, as piece 0 lies at both ends. */
    private final int[] lanes;
    private final List<String> names;
    private final String digest;
    private final double primaryShare;

    /**
     * @param pieces the end of each piece of the ring with its place
     * @param groups names of the groups; the first one has the place after {@link #ELSEWHERE}
     * @param primaryShare see {@link #primaryShare()}
     */
    Placement(String node, TreeMap<Token, Integer> pieces, List<String> groups,
            double primaryShare) {
        this.primaryShare = primaryShare;
        TreeMap<Token, Integer> joined = joined(pieces);
        ends = joined.keySet().toArray(new Token[0]);
        places = joined.values().stream().mapToInt(Integer::intValue).toArray();
        lanes = cutIntoLanes();
        names = new ArrayList<>(List.of("primary", "elsewhere"));
        names.addAll(groups);
        digest = digest(node);
    }

    /** Whether it tells where anything belongs. */
    boolean isKnown() {
        return ends.length > 0;
    }

    int placeOf(Token token) {
        return places[pieceOf(token)];
    }

    /** The name of a place; for a group, its source node and its number there. */
    String nameOf(int place) {
        return names.get(place);
    }

    int places() {
        return names.size();
    }

    int groups() {
        return names.size() - ELSEWHERE - 1;
    }

    /** How much of what belongs on this node is primary, from 0 to 1. */
    double primaryShare() {
        return primaryShare;
    }

    /** How many copies there are of what belongs on this node, on the average. */
    int copies() {
        return primaryShare > 0 ? (int) Math.round(1 / primaryShare) : 1;
    }

    /** Tells two placements apart, also after a restart. */
    String digest() {
        return digest;
    }

    /** True if all tokens between these two have the same place, so that none need be looked at. */
    boolean isOnePiece(Token first, Token last) {
        if (ends.length == 1) {
            return true;
        }
        // Piece 0 lies at both ends of the order of tokens, with all others in between.
        Token lastEnd = ends[ends.length - 1];
        boolean sameSide = first.compareTo(lastEnd) > 0 == last.compareTo(lastEnd) > 0;
        return sameSide && pieceOf(first) == pieceOf(last);
    }

    List<Range<Token>> rangesOf(int place) {
        List<Range<Token>> ranges = new ArrayList<>();
        for (int piece = 0; piece < ends.length; piece++) {
            if (places[piece] == place) {
                Token before = ends[(piece + ends.length - 1) % ends.length];
                ranges.add(new Range<>(before, ends[piece]));
            }
        }
        return ranges;
    }

    /**
     * Redundant copies on two sides of a primary range are in different lanes. A file of one lane
     * spans no primary range, so a read of one never looks at it, scans included. Nodes with many
     * vnodes have lanes that do span some.
     */
    int laneOf(Token token) {
        return isKnown() ? lanes[positionOf(token)] : 0;
    }

    /** How many lanes there are. */
    int lanes() {
        return lanes[lanes.length - 1] + 1;
    }

    private int[] cutIntoLanes() {
        int[] byPosition = new int[ends.length + 1];
        int cuts = 0;
        for (int position = 0; position < ends.length; position++) {
            byPosition[position] = cuts;
            cuts += places[position] == PRIMARY ? 1 : 0;
        }
        byPosition[ends.length] = cuts;
        if (cuts >= MOST_LANES) {
            int all = cuts + 1;
            Arrays.setAll(byPosition, position -> byPosition[position] * MOST_LANES / all);
        }
        return byPosition;
    }

    private int pieceOf(Token token) {
        int position = positionOf(token);
        // Behind the last end, the ring begins again.
        return position == ends.length ? 0 : position;
    }

    private int positionOf(Token token) {
        int found = Arrays.binarySearch(ends, token);
        return found >= 0 ? found : -found - 1;
    }

    /**
     * Neighbours of one place are one piece: what happens in parts of the ring that are not this
     * node's leaves the placement as it was, and no file is looked at again.
     */
    private static TreeMap<Token, Integer> joined(TreeMap<Token, Integer> pieces) {
        TreeMap<Token, Integer> joined = new TreeMap<>();
        for (Map.Entry<Token, Integer> piece : pieces.entrySet()) {
            Map.Entry<Token, Integer> next = pieces.higherEntry(piece.getKey());
            if (next == null) {
                next = pieces.firstEntry();
            }
            if (!next.getValue().equals(piece.getValue())) {
                joined.put(piece.getKey(), piece.getValue());
            }
        }
        // The whole ring is one place: any one end will do, so the first.
        return joined.isEmpty() && !pieces.isEmpty()
                ? new TreeMap<>(pieces.headMap(pieces.firstKey(), true)) : joined;
    }

    private String digest(String node) {
        StringBuilder text = new StringBuilder(node);
        for (int piece = 0; piece < ends.length; piece++) {
            text.append('\n').append(ends[piece]).append(' ').append(names.get(places[piece]));
        }
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256")
                    .digest(text.toString().getBytes(StandardCharsets.UTF_8));
            StringBuilder hex = new StringBuilder();
            for (int at = 0; at < DIGEST_BYTES; at++) {
                hex.append(String.format("%02x", hash[at]));
            }
            return hex.toString();
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError("every Java has SHA-256", impossible);
        }
    }
}
