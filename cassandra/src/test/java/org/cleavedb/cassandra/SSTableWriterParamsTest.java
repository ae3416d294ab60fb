package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.junit.jupiter.api.Test;

class SSTableWriterParamsTest {
    private static final int KEYS = 1_000_000;

    /**
     * The Bloom filter of each segment used to have room for all keys of a stream, so that the
     * filters of 16 segments took the memory of 16 streams.
     */
    @Test
    void theSegmentsOfAStreamShareItsKeys() {
        Placement placement = placementOfManyShards();
        SSTableWriterParams stream = new SSTableWriterParams();
        stream.keys = KEYS;
        assertEquals(KEYS, stream.keysOf(Role.PRIMARY, placement, true));
        assertEquals(KEYS, stream.keysOf(Role.SEGMENT, placement, true));
        long further = stream.keysOf(Role.SEGMENT, placement, false);
        assertTrue(further > KEYS / placement.shards() && further < KEYS / 4, "" + further);
        stream.keys = 10;
        assertEquals(10, stream.keysOf(Role.SEGMENT, placement, false));
    }

    private static Placement placementOfManyShards() {
        List<RingRange> ranges = new ArrayList<>();
        for (int token = 0; token < 4 * Placement.MAX_SHARDS; token++) {
            boolean primary = token % 2 == 0;
            ranges.add(new RingRange(new LongToken(token), primary ? "me" : "b", primary, true));
        }
        Placement placement = PlacementBuilder.build("me", Murmur3Partitioner.instance, ranges, 1);
        assertEquals(Placement.MAX_SHARDS, placement.shards());
        return placement;
    }
}
