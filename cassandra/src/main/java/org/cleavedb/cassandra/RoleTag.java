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
 * check 1c291ca3                     CRC-32 of all bytes before this line
 * </pre>
 *
 * <p>Valid is what has exactly these lines in this order, a known kind and the right check; at
 * most {@link #LONGEST} bytes. Anything else counts as no tag at all: the file is then looked
 * through once, and tagged anew.
 *
 * <p>Invariant <b>a tag is only a hint</b>: it decides which files are compacted together, never
 * what a read sees. A lost, foreign, torn or outdated tag costs I/O.
 */
final class RoleTag {
    static final int LONGEST = 4096;
    private static final String FORMAT = "cleavedb replica role 1";
    private static final List<String> NAMES = List.of("kind", "group", "placement", "check");

    final Role role;
    final String placement;

    RoleTag(Role role, String placement) {
        this.role = role;
        this.placement = placement;
    }

    byte[] encode() {
        String body = FORMAT + "\nkind " + role.kind + "\ngroup " + role.group
                + "\nplacement " + placement + "\n";
        return (body + "check " + check(body) + "\n").getBytes(StandardCharsets.UTF_8);
    }

    static Optional<RoleTag> decode(byte[] bytes) {
        if (bytes.length > LONGEST) {
            return Optional.empty();
        }
        String text = new String(bytes, StandardCharsets.UTF_8);
        String[] lines = text.split("\n", -1);
        if (lines.length != NAMES.size() + 2 || !lines[0].equals(FORMAT)) {
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
        RoleTag tag = kindNamed(values[0])
                .map(kind -> new RoleTag(new Role(kind, values[1]), values[2]))
                .orElse(null);
        // Encoding again checks everything that is left: the check, the end, stray bytes.
        return tag != null && Arrays.equals(tag.encode(), bytes)
                ? Optional.of(tag) : Optional.empty();
    }

    private static Optional<Role.Kind> kindNamed(String name) {
        return Arrays.stream(Role.Kind.values()).filter(kind -> kind.name().equals(name)).findAny();
    }

    private static String check(String body) {
        CRC32 crc = new CRC32();
        crc.update(body.getBytes(StandardCharsets.UTF_8));
        return String.format("%08x", crc.getValue());
    }
}
