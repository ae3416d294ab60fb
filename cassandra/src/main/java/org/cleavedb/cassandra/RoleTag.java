package org.cleavedb.cassandra;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.zip.CRC32;

/**
 * The role of a file as it is recorded beside its data, in {@code …-ReplicaRole.txt}:
 *
 * <pre>
 * cleavedb replica role 1            format and its version
 * kind RUN                           PRIMARY, SEGMENT or RUN
 * group 127.0.0.2:7000#3             empty unless the kind is RUN
 * placement 5f2e8c0a91b3d47e         the ring that the role was told by
 * padding ......                     dots, up to {@link #LENGTH} bytes of the whole
 * check 1c291ca3                     CRC-32 of all bytes before this line
 * </pre>
 *
 * <p>Valid is what has exactly these lines in this order, a known kind, the right padding and the
 * right check; at most {@link #LONGEST} bytes. Anything else counts as no tag at all: the file is
 * then looked through once, and tagged anew.
 *
 * <p>Invariant <b>all tags have one length</b>, so that a file can be tagged anew while it is sent
 * to another node, which has been told how long each part of it is. Names that are too long for it
 * make a longer tag; such a transfer would then break off, and be tried again.
 *
 * <p>Invariant <b>a tag is only a hint</b>: it decides which files are compacted together, never
 * what a read sees. A lost, foreign, torn or outdated tag costs I/O.
 */
final class RoleTag {
    static final int LONGEST = 4096;
    /** All but a group takes some hundred bytes, and a group is named by an address. */
    static final int LENGTH = 256;
    private static final String FORMAT = "cleavedb replica role 1";
    private static final List<String> NAMES =
            List.of("kind", "group", "placement", "padding", "check");
    private static final String CHECK_OF_NOTHING = "check 00000000\n";

    final Role role;
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

    static Optional<RoleTag> decode(byte[] bytes) {
        if (bytes.length > LONGEST) {
            return Optional.empty();
        }
        String[] lines = new String(bytes, StandardCharsets.UTF_8).split("\n", -1);
        // Encoding again checks everything that is left: the version, padding, check, stray bytes.
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
        return kindNamed(values[0])
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
