package org.cleavedb.cassandra;

import java.util.Objects;

/**
 * The role of an SSTable: it holds primary copies, or redundant ones in one of the two layers of
 * their log.
 */
final class Role {
    /** The kinds of roles. Tags on disk contain these names, so they must not change. */
    enum Kind {
        /** The SSTable holds primary copies only. */
        PRIMARY,
        /** The SSTable is a segment of the global log: redundant copies of any group. */
        SEGMENT,
        /** The SSTable is a sorted run of a local log: redundant copies of one group. */
        RUN
    }

    static final Role PRIMARY = new Role(Kind.PRIMARY, "");
    static final Role SEGMENT = new Role(Kind.SEGMENT, "");

    final Kind kind;
    /** The name of a run's group; empty for the other kinds. */
    final String group;

    Role(Kind kind, String group) {
        assert isValid(kind, group) : kind + " of group '" + group + "'";
        this.kind = kind;
        this.group = group;
    }

    /** True if the kind is a run and there is a group, or neither. */
    static boolean isValid(Kind kind, String group) {
        return (kind == Kind.RUN) != group.isEmpty();
    }

    /** The role of an SSTable all of whose partitions belong to this place. */
    static Role of(Placement placement, int place) {
        return place == Placement.PRIMARY ? PRIMARY : new Role(Kind.RUN, placement.nameOf(place));
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Role && ((Role) other).kind == kind
                && ((Role) other).group.equals(group);
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, group);
    }

    @Override
    public String toString() {
        return group.isEmpty() ? kind.name().toLowerCase() : "run of " + group;
    }
}
