package org.cleavedb.cassandra;

import java.util.Objects;

/** What a file holds: primary copies, or redundant ones in one of the two layers of their log. */
final class Role {
    /** The three kinds; their names are in the tags on disk. */
    enum Kind {
        /** Primary copies only. */
        PRIMARY,
        /** Redundant copies of any group: a segment of the global log. */
        SEGMENT,
        /** Redundant copies of one group: a sorted run of its local log. */
        RUN
    }

    static final Role PRIMARY = new Role(Kind.PRIMARY, "");
    static final Role SEGMENT = new Role(Kind.SEGMENT, "");

    final Kind kind;
    /** The name of the group of a run; otherwise empty. */
    final String group;

    Role(Kind kind, String group) {
        this.kind = kind;
        this.group = group;
    }

    /** The role of a file that holds partitions of this place only. */
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
