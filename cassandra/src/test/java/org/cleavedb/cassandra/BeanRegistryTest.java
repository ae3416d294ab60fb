package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import javax.management.JMException;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;

class BeanRegistryTest {
    private static final String NAME = "org.cleavedb.cassandra:type=Test";

    /** A bean of the test. */
    public interface NumberMXBean {
        int getNumber();
    }

    /**
     * After an incremental repair, the bean of a dropped table stayed, and hid that of a new table
     * of the same name.
     */
    @Test
    void aNewOwnerTakesTheNameOver() throws JMException {
        Object first = new Object();
        Object second = new Object();
        BeanRegistry.register(NAME, first, bean(1));
        BeanRegistry.register(NAME, first, bean(2));
        assertEquals(1, number(), "an owner keeps its bean");
        BeanRegistry.register(NAME, second, bean(3));
        assertEquals(3, number());
        BeanRegistry.unregister(NAME, first);
        assertEquals(3, number(), "the bean is no longer that of the first owner");
        BeanRegistry.unregister(NAME, second);
        assertFalse(ManagementFactory.getPlatformMBeanServer().isRegistered(new ObjectName(NAME)));
    }

    private static NumberMXBean bean(int number) {
        return () -> number;
    }

    private static int number() throws JMException {
        assertTrue(ManagementFactory.getPlatformMBeanServer().isRegistered(new ObjectName(NAME)));
        return (int) ManagementFactory.getPlatformMBeanServer()
                .getAttribute(new ObjectName(NAME), "Number");
    }
}
