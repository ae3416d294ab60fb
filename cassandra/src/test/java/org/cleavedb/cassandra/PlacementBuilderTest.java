package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

class PlacementBuilderTest {
    private static final Murmur3Partitioner PARTITIONER = Murmur3Partitioner.instance;

    @Test
    void everyTokenHasThePlaceOfItsOwner() {
        for (int seed = 0; seed < 50; seed++) {
            Random random = new Random(seed);
            List<RingRange> ring = ring(random, 2 + random.nextInt(5), 1 + random.nextInt(40));
            Placement placement = place(ring, 1 + random.nextInt(20));
            for (int round = 0; round < 500; round++) {
                long token = round < ring.size() ? value(ring.get(round).end) : random.nextLong();
                assertTrue(isRight(placement, ring, token), "seed " + seed + " token " + token);
                assertTrue(isRight(placement, ring, token + 1), "seed " + seed + " after " + token);
            }
        }
    }

    private static boolean isRight(Placement placement, List<RingRange> ring, long token) {
        RingRange owner = ring.stream().filter(range -> token <= value(range.end))
                .findFirst().orElse(ring.get(0));
        int place = placement.placeOf(new LongToken(token));
        if (owner.primary) {
            return place == Placement.PRIMARY;
        }
        return owner.owned
                ? placement.nameOf(place).startsWith(owner.source + "#")
                : place == Placement.ELSEWHERE;
    }

    @Test
    void rangesOfAPlaceHoldExactlyItsTokens() {
        Random random = new Random(7);
        Placement placement = place(ring(random, 4, 16), 5);
        for (int round = 0; round < 2000; round++) {
            Token token = new LongToken(random.nextLong());
            for (int place = 0; place < placement.places(); place++) {
                boolean inside = false;
                for (Range<Token> range : placement.rangesOf(place)) {
                    inside |= range.contains(token);
                }
                assertEquals(place == placement.placeOf(token), inside);
            }
        }
    }

    @Test
    void oneLargeRangeIsCutIntoGroupsOfOneWidth() {
        List<RingRange> ring = List.of(
                new RingRange(new LongToken(Long.MIN_VALUE / 2), "me", true, true),
                new RingRange(new LongToken(Long.MAX_VALUE / 2), "b", false, true));
        Placement placement = place(ring, 8);
        assertEquals(2 + 8, placement.places());
        assertEquals(0.5, placement.primaryShare(), 1e-6);
        for (int group = 2; group < placement.places(); group++) {
            double width = 0;
            for (Range<Token> range : placement.rangesOf(group)) {
                width += range.left.size(range.right);
            }
            assertEquals(0.5 / 8, width, 1e-6);
        }
    }

    @Test
    void manySmallRangesArePutTogether() {
        Placement placement = place(ring(new Random(3), 3, 256), 4);
        for (int group = 2; group < placement.places(); group++) {
            assertTrue(placement.rangesOf(group).size() > 20, placement.nameOf(group));
        }
        assertTrue(placement.places() <= 2 + 2 * 4, "two sources, four groups each");
    }

    @Test
    void manySourcesShareTheLimitOfOpenFiles() {
        Placement placement = place(ring(new Random(5), 60, 8), 100);
        assertTrue(placement.places() <= 2 + PlacementBuilder.MAX_GROUPS, "" + placement.places());
    }

    /** Each source node used to have one group at least, however many nodes there were. */
    @Test
    void moreSourcesThanGroupsShareThem() {
        Placement placement = place(ring(new Random(5), 300, 8), 100);
        assertTrue(placement.groups() <= PlacementBuilder.MAX_GROUPS, "" + placement.groups());
        assertTrue(placement.groups() > PlacementBuilder.MAX_GROUPS / 2, "" + placement.groups());
        for (int group = 2; group < placement.places(); group++) {
            assertFalse(placement.rangesOf(group).isEmpty(), placement.nameOf(group));
        }
    }

    @Test
    void aPlaceIsPastOnceItsLastTokenIs() {
        Random random = new Random(13);
        Placement placement = place(ring(random, 4, 16), 5);
        long[] tokens = random.longs(2000).sorted().toArray();
        for (int place = 0; place < placement.places(); place++) {
            boolean seenLater = false;
            for (int at = tokens.length - 1; at >= 0; at--) {
                Token token = new LongToken(tokens[at]);
                seenLater |= placement.placeOf(token) == place;
                assertFalse(seenLater && placement.isPast(place, token), "place " + place);
            }
            assertTrue(seenLater, "each place has some of the tokens");
            assertFalse(placement.isPast(place, new LongToken(tokens[0])));
        }
        long past = IntStream.range(0, placement.places())
                .filter(place -> placement.isPast(place, new LongToken(Long.MAX_VALUE))).count();
        assertEquals(placement.places() - 1, past, "only the last token's own place is not past");
    }

    @Test
    void theDigestTellsRingsApartAndNothingElse() {
        List<RingRange> ring = ring(new Random(11), 3, 8);
        assertEquals(place(ring, 4).digest(), place(new ArrayList<>(ring), 4).digest());
        assertNotEquals(place(ring, 4).digest(), place(ring, 5).digest());
        assertNotEquals(place(ring, 4).digest(),
                PlacementBuilder.build("other", PARTITIONER, ring, 4).digest());
        assertFalse(place(List.of(), 4).isKnown());
    }

    @Test
    void whatHappensElsewhereInTheRingChangesNothing() {
        List<RingRange> ring = List.of(
                new RingRange(new LongToken(0), "me", true, true),
                new RingRange(new LongToken(10), "b", false, true),
                new RingRange(new LongToken(20), "c", false, false),
                new RingRange(new LongToken(30), "d", false, false));
        List<RingRange> joinedBy = new ArrayList<>(ring);
        joinedBy.add(3, new RingRange(new LongToken(25), "e", false, false));
        assertEquals(place(ring, 3).digest(), place(joinedBy, 3).digest());
        joinedBy.set(3, new RingRange(new LongToken(25), "e", false, true));
        assertNotEquals(place(ring, 3).digest(), place(joinedBy, 3).digest());
    }

    @Test
    void aLonelyNodeIsPrimaryForAll() {
        Placement placement = place(ring(new Random(1), 1, 16), 4);
        assertTrue(placement.isOnePiece(new LongToken(Long.MIN_VALUE + 1),
                new LongToken(Long.MAX_VALUE)));
        assertEquals(Placement.PRIMARY, placement.placeOf(new LongToken(5)));
        assertEquals(1, placement.primaryShare());
    }

    @Test
    void onlyNeighbouringTokensAreOnePiece() {
        TreeMap<Token, Integer> pieces = new TreeMap<>();
        pieces.put(new LongToken(0), 0);
        pieces.put(new LongToken(10), 2);
        pieces.put(new LongToken(20), 0);
        Placement placement = new Placement("me", pieces, List.of("b#0"), 0.5);
        assertTrue(placement.isOnePiece(new LongToken(1), new LongToken(10)));
        assertFalse(placement.isOnePiece(new LongToken(1), new LongToken(11)));
        assertFalse(placement.isOnePiece(new LongToken(-5), new LongToken(15)));
        // Both lie in the piece that goes around the end of the ring, with all others between.
        assertFalse(placement.isOnePiece(new LongToken(-5), new LongToken(25)));
        assertTrue(placement.isOnePiece(new LongToken(21), new LongToken(25)));
    }

    @Test
    void aLaneSpansNoPrimaryRangeUnlessThereAreMany() {
        for (int seed = 0; seed < 30; seed++) {
            Random random = new Random(seed);
            Placement placement = place(ring(random, 3, 1 + random.nextInt(5)), 4);
            TreeMap<Long, Integer> shards = new TreeMap<>();
            for (int round = 0; round < 3000; round++) {
                long token = random.nextLong();
                shards.put(token, placement.shardOf(new LongToken(token)));
            }
            int last = 0;
            boolean primaryBetween = false;
            for (Map.Entry<Long, Integer> at : shards.entrySet()) {
                assertTrue(last <= at.getValue(), "lanes lie one behind the other");
                if (placement.placeOf(new LongToken(at.getKey())) == Placement.PRIMARY) {
                    primaryBetween = true;
                } else {
                    assertTrue(!primaryBetween || last < at.getValue(), "seed " + seed);
                    last = at.getValue();
                    primaryBetween = false;
                }
            }
            assertTrue(last < placement.shards());
        }
    }

    @Test
    void manyVnodesShareTheLanes() {
        Placement placement = place(ring(new Random(3), 3, 256), 4);
        assertEquals(Placement.MAX_SHARDS, placement.shards());
        assertEquals(0, placement.shardOf(new LongToken(Long.MIN_VALUE + 1)));
        assertEquals(Placement.MAX_SHARDS - 1, placement.shardOf(new LongToken(Long.MAX_VALUE)));
    }

    private static Placement place(List<RingRange> ring, int groups) {
        return PlacementBuilder.build("me", PARTITIONER, ring, groups);
    }

    /** Random tokens; each slice has a random first replica, and is here with some chance. */
    private static List<RingRange> ring(Random random, int nodes, int tokensPerNode) {
        TreeMap<Long, Integer> tokens = new TreeMap<>();
        while (tokens.size() < nodes * tokensPerNode) {
            tokens.put(random.nextLong(), random.nextInt(nodes));
        }
        List<RingRange> ranges = new ArrayList<>();
        tokens.forEach((token, node) -> ranges.add(new RingRange(new LongToken(token),
                "n" + node, node == 0, node == 0 || nodes < 4 || random.nextBoolean())));
        return Collections.unmodifiableList(ranges);
    }

    private static long value(Token token) {
        return token.getLongValue();
    }
}
