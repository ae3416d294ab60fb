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
 * The same table twice, one on our strategy and one on a stock one, that get the same changes.
 * Each change reaches both in one mutation: with the same clock reading, so cells expire in the
 * same second, and at a crash both keep it or none does.
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

    /** One change of both. */
    void change(Cluster.Client client, String kindOfBatch, String change) {
        execute(client, ConsistencyLevel.ALL, "BEGIN " + kindOfBatch + " BATCH "
                + inOurs(change) + "; " + inStock(change) + "; APPLY BATCH");
    }

    /** A conditional change of each, which must have the same outcome. */
    void changeIf(Cluster.Client client, String change) {
        assertEquals(
                text(execute(client, ConsistencyLevel.ALL, inStock(change))),
                text(execute(client, ConsistencyLevel.ALL, inOurs(change))), change);
    }

    /** Each of these queries has the same answer in both. */
    void compare(Cluster.Client client, ConsistencyLevel level, List<String> queries, String when) {
        for (String query : queries) {
            List<String> expected = List.of();
            List<String> found = List.of("not looked yet");
            // What expires between two looks is gone from both at the next.
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
