package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * The roles of files that have just left. Cassandra takes the inputs of a compaction away before
 * it tells what was made of them, and what was made inherits their role.
 */
final class Departed {
    private final Map<Descriptor, Role> roles = new HashMap<>();

    void left(SSTableReader file, Role role) {
        if (role != null) {
            roles.put(file.descriptor, role);
        }
    }

    Role role(SSTableReader file) {
        return roles.get(file.descriptor);
    }

    void forget(SSTableReader file) {
        roles.remove(file.descriptor);
    }

    /** Roles by another ring are of no use. */
    void forgetAll() {
        roles.clear();
    }

    /** Nobody asks any more about files whose data is gone. */
    void tidy() {
        roles.keySet().removeIf(file -> !RoleTags.hasData(file));
    }
}
