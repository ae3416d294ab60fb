package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.Host;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.Token;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.dht.Murmur3Partitioner;

/** The ring as a client knows it: the primary node of each key, and the ends of ranges. */
final class ClientRing {
    private final TreeMap<Long, String> primaries = new TreeMap<>();

    ClientRing(Session session) {
        for (Host host : session.getCluster().getMetadata().getAllHosts()) {
            for (Token token : host.getTokens()) {
                primaries.put((Long) token.getValue(), addressOf(host));
            }
        }
        if (primaries.isEmpty()) {
            throw new IllegalStateException("the driver knows no tokens of the nodes");
        }
    }

    private static String addressOf(Host host) {
        return host.getEndPoint().resolve().getAddress().getHostAddress();
    }

    static long token(String key) {
        return Murmur3Partitioner.instance
                .getToken(ByteBuffer.wrap(key.getBytes(StandardCharsets.UTF_8))).token;
    }

    /** The address of the first replica. */
    String primaryOf(long token) {
        Map.Entry<Long, String> end = primaries.ceilingEntry(token);
        return (end == null ? primaries.firstEntry() : end).getValue();
    }

    /** The last token of the range that this one is in; ranges end at the ring's own seam too. */
    long endOfRange(long token) {
        Long end = primaries.ceilingKey(token);
        return end == null ? Long.MAX_VALUE : end;
    }
}
