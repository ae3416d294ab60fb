package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.datastax.driver.core.ConsistencyLevel;
import com.datastax.driver.core.Row;
import com.datastax.driver.core.SimpleStatement;
import com.datastax.driver.core.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.cleavedb.cassandra.cluster.Cluster;

/**
 * A pair of tables that get the same changes, one under this strategy and one under a stock
 * strategy. Each change reaches both in one mutation. So they share one clock reading, by which
 * cells expire in the same second, and after a crash either both have the change or none has.
 */
final class TablePair {
    private static final int LOOKS = 20;
    private final String keyspace;
    private final String ours;
    private final String stock;

    TablePair(String keyspace, String name) {
        this.keyspace = keyspace;
        ours = name + "_ours";
        stock = name + "_stock";
    }

    String ours() {
        return ours;
    }

    String stock() {
        return stock;
    }

    void create(Cluster.Client client, String columns, String options, String ourCompaction) {
        client.execute("CREATE TABLE " + keyspace + "." + ours + " " + columns
                + " WITH compaction = " + ourCompaction + options);
        client.execute("CREATE TABLE " + keyspace + "." + stock + " " + columns
                + " WITH compaction = {'class': 'SizeTieredCompactionStrategy'}" + options);
    }

    void alterOurs(Cluster.Client client, String compaction) {
        client.execute(
                "ALTER TABLE " + keyspace + "." + ours + " WITH compaction = " + compaction);
    }

    /** Applies a change to both. */
    void change(Cluster.Client client, String kindOfBatch, String change) {
        execute(client, ConsistencyLevel.ALL, "BEGIN " + kindOfBatch + " BATCH "
                + inOurs(change) + "; " + inStock(change) + "; APPLY BATCH");
    }

    /** Applies a conditional change to each; the outcomes must be equal. */
    void changeIf(Cluster.Client client, String change) {
        assertEquals(
                text(execute(client, ConsistencyLevel.ALL, inStock(change))),
                text(execute(client, ConsistencyLevel.ALL, inOurs(change))), change);
    }

    /** Checks that each of these queries gives the same answer for both. */
    void compare(Cluster.Client client, ConsistencyLevel level, List<String> queries, String when) {
        for (String query : queries) {
            List<String> expected = List.of();
            List<String> found = List.of("not looked yet");
            // Cells may expire between the two queries; they are gone from both at the next try.
            for (int look = 0; look < LOOKS && !expected.equals(found); look++) {
                pauseBefore(look);
                expected = text(execute(client, level, inStock(query)));
                found = text(execute(client, level, inOurs(query)));
            }
            if (!expected.equals(found)) {
                throw new AssertionError(when + " at " + level + ": " + query
                        + "\nonly in the stock table: " + without(expected, found)
                        + "\nonly in ours: " + without(found, expected));
            }
        }
    }

    private static List<String> without(List<String> lines, List<String> others) {
        List<String> rest = new ArrayList<>(lines);
        rest.removeAll(others);
        return rest;
    }

    private static void pauseBefore(int look) {
        if (look > 0) {
            try {
                TimeUnit.MILLISECONDS.sleep(500);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private String inOurs(String cql) {
        return String.format(cql, keyspace + "." + ours);
    }

    private String inStock(String cql) {
        return String.format(cql, keyspace + "." + stock);
    }

    private static List<Row> execute(Cluster.Client client, ConsistencyLevel level, String cql) {
        Statement statement = new SimpleStatement(cql).setConsistencyLevel(level);
        return client.session().execute(statement).all();
    }

    private static List<String> text(List<Row> rows) {
        List<String> lines = new ArrayList<>();
        rows.forEach(row -> lines.add(row.toString()));
        return lines;
    }
}
