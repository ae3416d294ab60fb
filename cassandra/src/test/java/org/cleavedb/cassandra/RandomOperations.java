package org.cleavedb.cassandra;

import java.util.List;
import java.util.Random;
import java.util.StringJoiner;

/**
 * A generator of random changes, as CQL with {@code %s} for the name of the table. There are few
 * partitions and rows, so that changes meet. Timestamps are out of order, so that a later change
 * may be older. There are all kinds of deletions, cells that expire at once or not during the test,
 * static columns and collections.
 */
final class RandomOperations {
    static final int PARTITIONS = 12;
    static final int ROWS = 10;
    private static final List<String> ELEMENTS = List.of("'a'", "'b'", "'c'", "'d'");
    /** The greatest age of a change, in steps. */
    private static final int DISORDER = 40;

    private final Random random;
    private final boolean inOrder;
    private long step = 1000;

    /** @param inOrder true if timestamps must grow, as when tombstones are purged at once */
    RandomOperations(long seed, boolean inOrder) {
        random = new Random(seed);
        this.inOrder = inOrder;
    }

    static String columns() {
        return "(p int, c int, s text static, v text, n int, m map<text, int>, e set<int>, "
                + "l list<int>, f frozen<list<int>>, PRIMARY KEY (p, c))";
    }

    /** The next change. */
    String next() {
        step++;
        switch (random.nextInt(16)) {
            case 0:
            case 1:
            case 2:
            case 3:
                return insert();
            case 4:
            case 5:
            case 6:
                return update("v = " + text() + ", n = " + number());
            case 7:
                return "UPDATE %s USING TIMESTAMP " + timestamp() + " SET s = " + text()
                        + " WHERE p = " + partition();
            case 8:
                return update(collection());
            case 9:
                return update("e = e " + sign() + " {" + number() + "}");
            case 10:
                return update(random.nextBoolean()
                        ? "l = l + [" + number() + "]" : "l = [1, " + number() + "]");
            case 11:
                return delete(random.nextBoolean() ? "v, m" : "m[" + element() + "]", row());
            case 12:
                return delete("", row());
            case 13:
                return delete("", range());
            case 14:
                return random.nextInt(3) == 0 ? delete("", "") : delete("s", "");
            default:
                return insert();
        }
    }

    private String insert() {
        StringJoiner names = new StringJoiner(", ");
        StringJoiner values = new StringJoiner(", ");
        names.add("p").add("c");
        values.add(partition()).add(clustering());
        if (random.nextInt(4) > 0) {
            names.add("v");
            values.add(text());
        }
        if (random.nextInt(3) == 0) {
            names.add("m").add("e").add("f");
            values.add("{" + element() + ": " + number() + "}").add("{1, " + number() + "}")
                    .add("[" + number() + "]");
        }
        if (random.nextInt(3) == 0) {
            names.add("n").add("s");
            values.add(number()).add(random.nextInt(5) == 0 ? "null" : text());
        }
        return "INSERT INTO %s (" + names + ") VALUES (" + values + ") USING "
                + expiry() + "TIMESTAMP " + timestamp();
    }

    private String update(String change) {
        return "UPDATE %s USING " + expiry() + "TIMESTAMP " + timestamp() + " SET " + change
                + " WHERE p = " + partition() + " AND " + row();
    }

    private String delete(String what, String where) {
        return "DELETE " + what + " FROM %s USING TIMESTAMP " + timestamp() + " WHERE p = "
                + partition() + (where.isEmpty() ? "" : " AND " + where);
    }

    private String collection() {
        switch (random.nextInt(3)) {
            case 0:
                return "m = {" + element() + ": " + number() + "}";
            case 1:
                return "m[" + element() + "] = " + number();
            default:
                return "m = m - {" + element() + "}";
        }
    }

    private String row() {
        return "c = " + clustering();
    }

    private String range() {
        int from = random.nextInt(ROWS);
        String lower = random.nextBoolean() ? "c > " : "c >= ";
        String upper = random.nextBoolean() ? " AND c < " : " AND c <= ";
        return random.nextInt(4) == 0
                ? lower + from : lower + from + upper + (from + random.nextInt(ROWS));
    }

    private String expiry() {
        switch (random.nextInt(8)) {
            case 0:
                return "TTL 1 AND ";
            case 1:
                return "TTL 1000000 AND ";
            default:
                return "";
        }
    }

    private long timestamp() {
        return inOrder ? step : Math.max(1, step - random.nextInt(DISORDER));
    }

    private String partition() {
        return Integer.toString(random.nextInt(PARTITIONS));
    }

    private String clustering() {
        return Integer.toString(random.nextInt(ROWS));
    }

    private String number() {
        return Integer.toString(random.nextInt(5));
    }

    private String sign() {
        return random.nextBoolean() ? "+" : "-";
    }

    private String text() {
        return "'t" + random.nextInt(1000) + "'";
    }

    private String element() {
        return ELEMENTS.get(random.nextInt(ELEMENTS.size()));
    }
}
