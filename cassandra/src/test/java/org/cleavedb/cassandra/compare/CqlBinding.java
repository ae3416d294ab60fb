package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.ResultSetFuture;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * A binding of YCSB to a Cassandra table, with one row per record and one column per field. Reads
 * wait for their answer. Writes are sent in YCSB's order without waiting, with timestamps in that
 * order, so that the result does not depend on the speed of the nodes.
 *
 * <p>A scan asks for one piece of the ring at a time, each within one primary range, as clients do
 * that read tables by token ranges. So it can use primary copies. With `LIMIT` alone, a coordinator
 * would join all ranges of which it holds copies, and answer from these.
 */
final class CqlBinding extends DB {
    static final String KEY = "y_id";
    /** Wide enough that mostly one piece will do. */
    private static final double WIDTH_PER_ROW = 1.2;

    private final Session session;
    private final ConsistencyLevel level;
    private final ClientRing ring;
    private final double tokensPerRow;
    private final int inFlight;
    private final Semaphore permits;
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final Map<String, PreparedStatement> prepared = new ConcurrentHashMap<>();
    private final Map<String, Long> askedByPrimary = new TreeMap<>();
    private long bytesWritten;
    private long piecesScanned;

    CqlBinding(Session session, ConsistencyLevel level, ClientRing ring, long records,
            int inFlight) {
        this.session = session;
        this.level = level;
        this.ring = ring;
        this.tokensPerRow = Math.pow(2, 64) / records;
        this.inFlight = inFlight;
        this.permits = new Semaphore(inFlight);
    }

    static String columns(int fields) {
        StringBuilder columns = new StringBuilder("(" + KEY + " text PRIMARY KEY");
        for (int field = 0; field < fields; field++) {
            columns.append(", field").append(field).append(" text");
        }
        return columns.append(")").toString();
    }

    /** Keys and values that were sent in writes. */
    long bytesWritten() {
        return bytesWritten;
    }

    long piecesScanned() {
        return piecesScanned;
    }

    /** The number of reads and pieces of scans of each node, by its address. */
    Map<String, Long> askedByPrimary() {
        return askedByPrimary;
    }

    @Override
    public Status read(String table, String key, Set<String> fields,
            Map<String, ByteIterator> result) {
        askedByPrimary.merge(ring.primaryOf(ClientRing.token(key)), 1L, Long::sum);
        ResultSet rows = execute("SELECT * FROM " + table + " WHERE " + KEY + " = ?", key);
        Row row = rows.one();
        if (row == null) {
            throw new IllegalStateException("the row " + key + " of " + table + " is gone");
        }
        fill(row, fields, result);
        return Status.OK;
    }

    @Override
    public Status scan(String table, String startKey, int count, Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        long from = ClientRing.token(startKey);
        while (result.size() < count) {
            long wanted = count - result.size();
            long to = endOfPiece(from, wanted);
            piecesScanned++;
            askedByPrimary.merge(ring.primaryOf(from), 1L, Long::sum);
            for (Row row : execute("SELECT * FROM " + table + " WHERE token(" + KEY
                    + ") >= ? AND token(" + KEY + ") <= ? LIMIT ?", from, to, (int) wanted)) {
                HashMap<String, ByteIterator> record = new HashMap<>();
                fill(row, fields, record);
                result.add(record);
            }
            if (to == Long.MAX_VALUE) {
                return Status.OK;
            }
            from = to + 1;
        }
        return Status.OK;
    }

    private long endOfPiece(long from, long rows) {
        double width = rows * tokensPerRow * WIDTH_PER_ROW;
        long end = ring.endOfRange(from);
        return from + width < end ? from + (long) width : end;
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        // One order of columns, whatever the map's, so that each set is prepared once.
        Map<String, String> sorted = new TreeMap<>();
        values.forEach((name, value) -> sorted.put(name, value.toString()));
        List<Object> bound = new ArrayList<>(List.of(key));
        StringBuilder names = new StringBuilder(KEY);
        StringBuilder marks = new StringBuilder("?");
        bytesWritten += key.length();
        for (Map.Entry<String, String> value : sorted.entrySet()) {
            names.append(", ").append(value.getKey());
            marks.append(", ?");
            bound.add(value.getValue());
            bytesWritten += value.getValue().length();
        }
        send("INSERT INTO " + table + " (" + names + ") VALUES (" + marks + ")", bound.toArray());
        return Status.OK;
    }

    /** In CQL an update of columns is an insert of them. */
    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        return insert(table, key, values);
    }

    @Override
    public Status delete(String table, String key) {
        send("DELETE FROM " + table + " WHERE " + KEY + " = ?", key);
        return Status.OK;
    }

    /** Waits for every write that was sent; fails if one did. */
    void await() {
        permits.acquireUninterruptibly(inFlight);
        permits.release(inFlight);
        checkWrites();
    }

    private void checkWrites() {
        if (failure.get() != null) {
            throw new IllegalStateException("a write failed: " + failure.get(), failure.get());
        }
    }

    private void send(String cql, Object... values) {
        checkWrites();
        permits.acquireUninterruptibly();
        ResultSetFuture sent = session.executeAsync(bound(cql, values));
        sent.addListener(() -> {
            try {
                sent.getUninterruptibly();
            } catch (RuntimeException failed) {
                failure.compareAndSet(null, failed);
            } finally {
                permits.release();
            }
        }, Runnable::run);
    }

    private ResultSet execute(String cql, Object... values) {
        return session.execute(bound(cql, values));
    }

    private BoundStatement bound(String cql, Object... values) {
        BoundStatement bound = prepared.computeIfAbsent(cql, session::prepare).bind(values);
        bound.setConsistencyLevel(level);
        return bound;
    }

    private static void fill(Row row, Set<String> fields, Map<String, ByteIterator> result) {
        row.getColumnDefinitions().forEach(column -> {
            String name = column.getName();
            boolean wanted = fields == null || fields.contains(name);
            if (wanted && !name.equals(KEY)) {
                if (row.isNull(name)) {
                    throw new IllegalStateException("the row " + row.getString(KEY)
                            + " has lost its column " + name);
                }
                result.put(name, new StringByteIterator(row.getString(name)));
            }
        });
    }
}
