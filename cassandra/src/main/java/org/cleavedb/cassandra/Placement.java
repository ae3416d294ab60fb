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
 * The placement of a table's partitions on this node: it assigns each token to the primary side or
 * to a group of redundant copies. A placement is immutable. It depends on the ring and the options
 * only, so that a restarted node computes the same one.
 *
 * <p>A place is a small number: {@link #PRIMARY}; {@link #ELSEWHERE} for partitions that the ring
 * gives to other nodes, which stay until a cleanup or come early while a node joins; or a group. No
 * two groups share a token, so each can be merged without the others.
 *
 * <p>Invariant <b>every token has one place</b>: a partition lies on one side only, so that each
 * side can be compacted without the other.
 */
final class Placement {
    static final int PRIMARY = 0;
    static final int ELSEWHERE = 1;
    /** The most shards, as a flush writes one segment per shard. */
    static final int MAX_SHARDS = 16;
    private static final int DIGEST_BYTES = 8;

    /** The placement of a node that does not know its ring yet. */
    static final Placement UNKNOWN = new Placement("", new TreeMap<>(), List.of(), 1);
    /** The placement of a table whose copies have no roles; all are treated as primary ones. */
    static final Placement WITHOUT_ROLES =
            new Placement("without roles", new TreeMap<>(), List.of(), 1);

    private final Token[] ends;
    private final int[] places;
    /** Shards by position in token order: one more than pieces, as piece 0 lies at both ends. */
    private final int[] shards;
    /** The last position of each place; -1 if it has none. */
    private final int[] lastPositions;
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
        shards = cutIntoShards();
        names = new ArrayList<>(List.of("primary", "elsewhere"));
        names.addAll(groups);
        lastPositions = findLastPositions();
        digest = digest(node);
    }

    /** False for {@link #UNKNOWN} and {@link #WITHOUT_ROLES}, which have no places. */
    boolean isKnown() {
        return ends.length > 0;
    }

    int placeOf(Token token) {
        return places[pieceOf(token)];
    }

    /** True if neither this token nor any later one, in the order of tokens, has this place. */
    boolean isPast(int place, Token token) {
        return positionOf(token) > lastPositions[place];
    }

    /** The name of a place; that of a group consists of its source node and a number. */
    String nameOf(int place) {
        return names.get(place);
    }

    int places() {
        return names.size();
    }

    int groups() {
        return names.size() - ELSEWHERE - 1;
    }

    /** The share of primary copies in what this node owns, from 0 to 1. */
    double primaryShare() {
        return primaryShare;
    }

    /** The average number of copies of what this node owns. */
    int copies() {
        return primaryShare > 0 ? (int) Math.round(1 / primaryShare) : 1;
    }

    /** A digest that differs for different placements and stays the same after a restart. */
    String digest() {
        return digest;
    }

    /** True if it is certain that all tokens between these two have the same place. */
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
     * The shard of a redundant copy. A primary range separates two shards, so an SSTable of one
     * shard spans no primary range, and no read of a primary range, scans included, looks into it.
     * On nodes with many vnodes, some shards do span primary ranges, see {@link #MAX_SHARDS}.
     */
    int shardOf(Token token) {
        return isKnown() ? shards[positionOf(token)] : 0;
    }

    /** The number of shards. */
    int shards() {
        return shards[shards.length - 1] + 1;
    }

    private int[] cutIntoShards() {
        int[] byPosition = new int[ends.length + 1];
        int cuts = 0;
        for (int position = 0; position < ends.length; position++) {
            byPosition[position] = cuts;
            cuts += places[position] == PRIMARY ? 1 : 0;
        }
        byPosition[ends.length] = cuts;
        if (cuts >= MAX_SHARDS) {
            int all = cuts + 1;
            Arrays.setAll(byPosition, position -> byPosition[position] * MAX_SHARDS / all);
        }
        return byPosition;
    }

    private int[] findLastPositions() {
        int[] last = new int[names.size()];
        Arrays.fill(last, -1);
        for (int position = 0; isKnown() && position <= ends.length; position++) {
            last[places[pieceAt(position)]] = position;
        }
        return last;
    }

    private int pieceOf(Token token) {
        return pieceAt(positionOf(token));
    }

    private int pieceAt(int position) {
        // Tokens after the last end belong to the piece that wraps around.
        return position == ends.length ? 0 : position;
    }

    private int positionOf(Token token) {
        int found = Arrays.binarySearch(ends, token);
        return found >= 0 ? found : -found - 1;
    }

    /**
     * Joins neighbouring pieces of the same place. A change in parts of the ring that this node
     * does not own then leaves the placement and its digest as they were, and no SSTable is
     * inspected again.
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
        // If the whole ring is one place, the first end stands for all.
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
