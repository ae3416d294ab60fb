package org.cleavedb.cassandra.compare;

import java.util.List;
import java.util.Properties;
import site.ycsb.DB;
import site.ycsb.WorkloadException;
import site.ycsb.measurements.Measurements;
import site.ycsb.workloads.CoreWorkload;

/** YCSB's own core workload, one kind of operation at a time. */
final class Ycsb {
    private static final int LONGEST_SCAN = 100;

    private final CoreWorkload workload;
    private final Object thread;

    /** @param only `insert`, `update`, `read` or `scan` */
    Ycsb(Settings settings, String table, String only) {
        Properties properties = new Properties();
        properties.setProperty("table", table);
        properties.setProperty("recordcount", settings.text("records"));
        // The zipfian chooser leaves room for inserts among so many; there are none.
        properties.setProperty("operationcount", "0");
        properties.setProperty("fieldcount", settings.text("fields"));
        properties.setProperty("fieldlength", settings.text("field"));
        properties.setProperty("writeallfields",
                Boolean.toString(settings.text("update").equals("all")));
        properties.setProperty("requestdistribution", "zipfian");
        properties.setProperty("maxscanlength", Integer.toString(LONGEST_SCAN));
        for (String kind : List.of("read", "update", "insert", "scan", "readmodifywrite")) {
            properties.setProperty(kind + "proportion", kind.equals(only) ? "1" : "0");
        }
        // Its workload asks for these as it is made.
        Measurements.setProperties(properties);
        workload = new CoreWorkload();
        try {
            workload.init(properties);
            thread = workload.initThread(properties, 0, 1);
        } catch (WorkloadException refused) {
            throw new IllegalArgumentException("YCSB refuses the settings: "
                    + refused.getMessage(), refused);
        }
    }

    void insert(DB db) {
        check(workload.doInsert(db, thread));
    }

    void transact(DB db) {
        check(workload.doTransaction(db, thread));
    }

    private static void check(boolean done) {
        if (!done) {
            throw new IllegalStateException("YCSB gave up an operation");
        }
    }
}
