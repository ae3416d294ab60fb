package org.cleavedb.cassandra.cluster;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.management.Attribute;
import javax.management.JMException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** A client of a node's JMX interface, which does the work of `nodetool` without its start time. */
public final class NodeControl implements AutoCloseable {
    private static final String STORAGE = "org.apache.cassandra.db:type=StorageService";
    private static final String PROXY = "org.apache.cassandra.db:type=StorageProxy";
    private static final String[] NO_OPTIONS = {};

    private final JMXConnector connector;
    private final MBeanServerConnection beans;

    NodeControl(NodeLayout layout) throws IOException {
        connector = JMXConnectorFactory.connect(new JMXServiceURL(
                "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + layout.jmxPort() + "/jmxrmi"));
        beans = connector.getMBeanServerConnection();
    }

    /** Writes the memtables of these tables to files. */
    public void flush(String keyspace, String... tables) {
        invoke(STORAGE, "forceKeyspaceFlush",
                new Object[] {keyspace, tables},
                new String[] {"java.lang.String", "[Ljava.lang.String;"});
    }

    /** Compacts these tables as far as their strategies can. */
    public void compact(String keyspace, String... tables) {
        invoke(STORAGE, "forceKeyspaceCompaction",
                new Object[] {false, keyspace, tables},
                new String[] {"boolean", "java.lang.String", "[Ljava.lang.String;"});
    }

    /** Repairs these tables over all ranges, and waits for the end. */
    public void repair(String keyspace, boolean incremental, String... tables) {
        Map<String, String> options = Map.of(
                "incremental", Boolean.toString(incremental),
                "primaryRange", "false",
                "parallelism", "parallel",
                "columnFamilies", String.join(",", tables));
        Object command = invoke(STORAGE, "repairAsync",
                new Object[] {keyspace, options},
                new String[] {"java.lang.String", "java.util.Map"});
        List<?> status = repairStatus(command);
        while (status == null || status.isEmpty() || "IN_PROGRESS".equals(status.get(0))) {
            Cluster.pause();
            status = repairStatus(command);
        }
        if (!"COMPLETED".equals(status.get(0))) {
            throw new IllegalStateException("the repair of " + keyspace + " ended so: " + status);
        }
    }

    private List<?> repairStatus(Object command) {
        return (List<?>) invoke(STORAGE, "getParentRepairStatus",
                new Object[] {command}, new String[] {"int"});
    }

    /** True if all nodes that this one takes for alive say that they have the same schema. */
    public boolean liveNodesAgree() {
        Map<?, ?> nodesByVersion = new HashMap<>(
                (Map<?, ?>) attribute(PROXY, "SchemaVersionsWithPort"));
        // Ignore nodes that are down or did not answer.
        nodesByVersion.remove("UNREACHABLE");
        return nodesByVersion.size() == 1
                && ((List<?>) nodesByVersion.values().iterator().next()).size() >= liveNodes();
    }

    /** The number of nodes that this one takes for alive, itself included. */
    public int liveNodes() {
        return ((List<?>) attribute(STORAGE, "LiveNodesWithPort")).size();
    }

    public boolean has(String name) {
        try {
            return beans.isRegistered(new ObjectName(name));
        } catch (JMException | IOException failure) {
            throw new IllegalStateException(
                    "looking for " + name + ": " + failure.getMessage(), failure);
        }
    }

    /** The value of an attribute of any JMX bean. */
    public Object attribute(String name, String attribute) {
        try {
            return beans.getAttribute(new ObjectName(name), attribute);
        } catch (JMException | IOException failure) {
            throw new IllegalStateException(
                    "reading " + attribute + " of " + name + ": " + failure.getMessage(), failure);
        }
    }

    /** Sets an attribute of any JMX bean. */
    public void set(String name, String attribute, Object value) {
        try {
            beans.setAttribute(new ObjectName(name), new Attribute(attribute, value));
        } catch (JMException | IOException failure) {
            throw new IllegalStateException(
                    "setting " + attribute + " of " + name + ": " + failure.getMessage(), failure);
        }
    }

    /** Calls an operation of any JMX bean. */
    public Object invoke(String name, String operation, Object[] values, String[] types) {
        try {
            return beans.invoke(new ObjectName(name), operation, values, types);
        } catch (JMException | IOException failure) {
            throw new IllegalStateException(
                    operation + " of " + name + ": " + failure.getMessage(), failure);
        }
    }

    /** Calls an operation without arguments. */
    public Object invoke(String name, String operation) {
        return invoke(name, operation, new Object[0], NO_OPTIONS);
    }

    @Override
    public void close() throws IOException {
        connector.close();
    }
}
