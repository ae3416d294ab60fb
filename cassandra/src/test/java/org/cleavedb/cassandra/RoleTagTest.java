package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;
import org.junit.jupiter.api.Test;

class RoleTagTest {
    private static final List<Role> ROLES =
            List.of(Role.PRIMARY, Role.SEGMENT, new Role(Role.Kind.RUN, "127.0.0.2:7000#13"),
                    new Role(Role.Kind.RUN, "elsewhere"), new Role(Role.Kind.RUN,
                            "[2001:db8:1234:5678:9abc:def0:1234:5678]:65535#127"));

    @Test
    void whatIsWrittenIsRead() {
        for (Role role : ROLES) {
            RoleTag read = RoleTag.decode(new RoleTag(role, "00ff").encode()).orElseThrow();
            assertEquals(role, read.role);
            assertEquals("00ff", read.placement);
        }
    }

    @Test
    void theFormatOfTodayIsReadTomorrow() {
        byte[] bytes = ("cleavedb replica role 1\nkind RUN\ngroup 10.0.0.1:7000#2\n"
                + "placement 0123456789abcdef\npadding " + ".".repeat(150) + "\ncheck 8b38e498\n")
                .getBytes(StandardCharsets.UTF_8);
        RoleTag tag = RoleTag.decode(bytes).orElseThrow();
        assertEquals(new Role(Role.Kind.RUN, "10.0.0.1:7000#2"), tag.role);
        assertEquals("0123456789abcdef", tag.placement);
        assertArrayEquals(bytes, tag.encode());
    }

    /** A stream of a whole SSTable announces the lengths of its components in advance. */
    @Test
    void allTagsHaveOneLength() {
        for (Role role : ROLES) {
            assertEquals(RoleTag.LENGTH,
                    new RoleTag(role, "0123456789abcdef").encode().length, role.toString());
        }
    }

    @Test
    void aNameThatIsTooLongMakesALongerTag() {
        Role role = new Role(Role.Kind.RUN, "n".repeat(RoleTag.LENGTH));
        byte[] bytes = new RoleTag(role, "00ff").encode();
        assertTrue(bytes.length > RoleTag.LENGTH);
        assertEquals(role, RoleTag.decode(bytes).orElseThrow().role);
    }

    @Test
    void damageAnywhereMakesItInvalid() {
        for (Role role : ROLES) {
            byte[] whole = new RoleTag(role, "00ff").encode();
            for (int at = 0; at < whole.length; at++) {
                byte[] damaged = whole.clone();
                for (int bit = 0; bit < 8; bit++) {
                    damaged[at] = (byte) (whole[at] ^ (1 << bit));
                    assertFalse(RoleTag.decode(damaged).isPresent(), "byte " + at + " bit " + bit);
                }
                assertFalse(RoleTag.decode(Arrays.copyOf(whole, at)).isPresent(), "cut at " + at);
            }
            assertFalse(RoleTag.decode(Arrays.copyOf(whole, whole.length + 1)).isPresent());
        }
        assertTrue(RoleTag.decode(new byte[RoleTag.MAX_LENGTH + 1]).isEmpty());
    }

    /** Guards against accepting such a tag because its CRC is right. */
    @Test
    void aGroupWithoutARunAndARunWithoutAGroupAreInvalid() {
        for (String role : List.of("kind PRIMARY\ngroup a#0", "kind SEGMENT\ngroup a#0",
                "kind RUN\ngroup ")) {
            assertTrue(RoleTag.decode(tagOf(role)).isEmpty(), role);
        }
        assertTrue(RoleTag.decode(tagOf("kind RUN\ngroup a#0")).isPresent());
    }

    private static byte[] tagOf(String role) {
        String lines = "cleavedb replica role 1\n" + role + "\nplacement 00ff\npadding ";
        int rest = RoleTag.LENGTH - lines.length() - "\ncheck 00000000\n".length();
        String body = lines + ".".repeat(rest) + "\n";
        CRC32 crc = new CRC32();
        crc.update(body.getBytes(StandardCharsets.UTF_8));
        body += String.format("check %08x%n", crc.getValue());
        return body.getBytes(StandardCharsets.UTF_8);
    }
}
