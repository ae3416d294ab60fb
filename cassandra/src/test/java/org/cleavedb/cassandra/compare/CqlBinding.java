package org.cleavedb.cassandra.compare;

import com.datastax.driver.core.BoundStatement;
import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.PreparedStatement;
import com.datastax.driver.core.ResultSet;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.Session;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/** YCSB's view of a Cassandra table: one row per record, one column per field. */
final class CqlBinding extends DB {
    static final String KEY = "y_id";

    private final Session session;
    private final ConsistencyLevel level;
    private final Map<String, PreparedStatement> prepared = new ConcurrentHashMap<>();

    CqlBinding(Session session, ConsistencyLevel level) {
        this.session = session;
        this.level = level;
    }

    static String columns(int fields) {
        StringBuilder columns = new StringBuilder("(" + KEY + " text PRIMARY KEY");
        for (int field = 0; field < fields; field++) {
            columns.append(", field").append(field).append(" text");
        }
        return columns.append(")").toString();
    }

    @Override
    public Status read(String table, String key, Set<String> fields,
            Map<String, ByteIterator> result) {
        ResultSet rows = execute("SELECT * FROM " + table + " WHERE " + KEY + " = ?", key);
        Row row = rows.one();
        if (row == null) {
            return Status.NOT_FOUND;
        }
        fill(row, fields, result);
        return Status.OK;
    }

    @Override
    public Status scan(String table, String startKey, int count, Set<String> fields,
            Vector<HashMap<String, ByteIterator>> result) {
        for (Row row : execute("SELECT * FROM " + table + " WHERE token(" + KEY + ") >= token(?)"
                + " LIMIT ?", startKey, count)) {
            HashMap<String, ByteIterator> record = new HashMap<>();
            fill(row, fields, record);
            result.add(record);
        }
        return Status.OK;
    }

    @Override
    public Status insert(String table, String key, Map<String, ByteIterator> values) {
        List<Object> bound = new ArrayList<>(List.of(key));
        StringBuilder names = new StringBuilder(KEY);
        StringBuilder marks = new StringBuilder("?");
        values.forEach((name, value) -> {
            names.append(", ").append(name);
            marks.append(", ?");
            bound.add(value.toString());
        });
        execute("INSERT INTO " + table + " (" + names + ") VALUES (" + marks + ")",
                bound.toArray());
        return Status.OK;
    }

    /** In CQL an update of columns is an insert of them. */
    @Override
    public Status update(String table, String key, Map<String, ByteIterator> values) {
        return insert(table, key, values);
    }

    @Override
    public Status delete(String table, String key) {
        execute("DELETE FROM " + table + " WHERE " + KEY + " = ?", key);
        return Status.OK;
    }

    private ResultSet execute(String cql, Object... values) {
        BoundStatement bound = prepared.computeIfAbsent(cql, session::prepare).bind(values);
        bound.setConsistencyLevel(level);
        return session.execute(bound);
    }

    private static void fill(Row row, Set<String> fields, Map<String, ByteIterator> result) {
        row.getColumnDefinitions().forEach(column -> {
            String name = column.getName();
            boolean wanted = fields == null || fields.contains(name);
            if (wanted && !name.equals(KEY) && !row.isNull(name)) {
                result.put(name, new StringByteIterator(row.getString(name)));
            }
        });
    }
}
