package org.cleavedb.cassandra;

import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;

/**
 * The roles of SSTables that were removed a moment ago. Cassandra may remove the inputs of a
 * compaction before it announces the outputs, and the outputs inherit the role of the inputs.
 */
final class RemovedRoles {
    private final Map<Descriptor, Role> roles = new HashMap<>();

    void remember(SSTableReader file, Role role) {
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

    /** Forgets all roles; they are void once the ring has changed. */
    void clear() {
        roles.clear();
    }

    /** Forgets SSTables whose data was deleted: their compaction has been announced by then. */
    void forgetDeleted() {
        roles.keySet().removeIf(file -> !RoleTags.hasData(file));
    }
}
