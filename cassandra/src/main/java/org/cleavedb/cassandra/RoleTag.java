package org.cleavedb.cassandra;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.zip.CRC32;

/**
 * The tag of an SSTable: its role as the component {@code …-ReplicaRole.txt} records it.
 *
 * <pre>
 * cleavedb replica role 1            format and its version
 * kind RUN                           PRIMARY, SEGMENT or RUN
 * group 8d5ed9f4-7764-4dbd-bad8-43fddce94b7c#3    empty if and only if the kind is not RUN
 * placement 5f2e8c0a91b3d47e         digest of the placement that the role is for
 * padding ......                     dots that fill the file up to {@link #LENGTH} bytes
 * check 1c291ca3                     CRC-32 of all bytes before this line
 * </pre>
 *
 * <p>A tag is valid if it has exactly these lines in this order, a known kind, the right padding
 * and the right check, in at most {@link #MAX_LENGTH} bytes. Anything else counts as no tag at all:
 * the SSTable is then inspected once and tagged again.
 *
 * <p>Invariant <b>all tags have one length</b>. A stream of a whole SSTable announces the length of
 * each component first, and the tag may be replaced while the stream runs. A group name that is too
 * long makes a longer tag; such a stream would fail and be tried again.
 *
 * <p>Invariant <b>a tag is only a hint</b>: it decides which SSTables are compacted together, never
 * the result of a read. A lost, foreign, torn or outdated tag costs I/O.
 */
final class RoleTag {
    /** The longest tag that is read, in bytes. */
    static final int MAX_LENGTH = 4096;
    /** The length of a tag in bytes: some hundred for the fixed parts, the rest for the group. */
    static final int LENGTH = 256;
    private static final String FORMAT = "cleavedb replica role 1";
    private static final List<String> NAMES =
            List.of("kind", "group", "placement", "padding", "check");
    private static final String CHECK_OF_NOTHING = "check 00000000\n";

    final Role role;
    /** The digest of the placement that the role is for, see {@link Placement#digest}. */
    final String placement;

    RoleTag(Role role, String placement) {
        this.role = role;
        this.placement = placement;
    }

    byte[] encode() {
        String lines = FORMAT + "\nkind " + role.kind + "\ngroup " + role.group
                + "\nplacement " + placement + "\n";
        int without = bytes(lines + "padding \n" + CHECK_OF_NOTHING).length;
        String body = lines + "padding " + ".".repeat(Math.max(0, LENGTH - without)) + "\n";
        return bytes(body + "check " + check(body) + "\n");
    }

    /** The tag in these bytes; empty if they are no valid tag. */
    static Optional<RoleTag> decode(byte[] bytes) {
        if (bytes.length > MAX_LENGTH) {
            return Optional.empty();
        }
        String[] lines = new String(bytes, StandardCharsets.UTF_8).split("\n", -1);
        // The comparison with a new encoding also checks the version, the padding and the CRC.
        return named(lines).filter(tag -> Arrays.equals(tag.encode(), bytes));
    }

    private static Optional<RoleTag> named(String[] lines) {
        if (lines.length != NAMES.size() + 2) {
            return Optional.empty();
        }
        String[] values = new String[NAMES.size()];
        for (int at = 0; at < values.length; at++) {
            String name = NAMES.get(at) + " ";
            if (!lines[at + 1].startsWith(name)) {
                return Optional.empty();
            }
            values[at] = lines[at + 1].substring(name.length());
        }
        return kindNamed(values[0]).filter(kind -> Role.isValid(kind, values[1]))
                .map(kind -> new RoleTag(new Role(kind, values[1]), values[2]));
    }

    private static Optional<Role.Kind> kindNamed(String name) {
        return Arrays.stream(Role.Kind.values()).filter(kind -> kind.name().equals(name)).findAny();
    }

    private static String check(String body) {
        CRC32 crc = new CRC32();
        crc.update(bytes(body));
        return String.format("%08x", crc.getValue());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
