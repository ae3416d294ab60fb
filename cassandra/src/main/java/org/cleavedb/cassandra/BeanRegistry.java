package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.utils.MBeanWrapper;

/**
 * A registry of JMX beans with their owners. A bean may outlive its table, as Cassandra does not
 * shut down each strategy. A new table of the same name then takes the name over.
 */
final class BeanRegistry {
    private static final Map<String, Object> OWNERS = new HashMap<>();

    private BeanRegistry() {
    }

    /** Registers a bean, in place of another owner's; keeps the one that this owner has. */
    static synchronized void register(String name, Object owner, Object bean) {
        if (OWNERS.put(name, owner) == owner) {
            return;
        }
        if (MBeanWrapper.instance.isRegistered(name)) {
            MBeanWrapper.instance.unregisterMBean(name);
        }
        MBeanWrapper.instance.registerMBean(bean, name);
    }

    static synchronized boolean isOwner(String name, Object owner) {
        return OWNERS.get(name) == owner;
    }

    /** Unregisters the bean of this owner, but not that of another one. */
    static synchronized void unregister(String name, Object owner) {
        if (OWNERS.remove(name, owner)) {
            MBeanWrapper.instance.unregisterMBean(name);
        }
    }
}
