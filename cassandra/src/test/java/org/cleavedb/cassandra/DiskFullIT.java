package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Fills the disk in the middle of a split. The node's data directory is a small disk in memory,
 * which only root can mount; for other users the test is skipped with a message.
 */
@Tag("long")
class DiskFullIT {
    private static final String OPTIONS =
            "'ordering': '2', 'split_segments': '6', 'groups': '2'";
    private static final int TRIES = 5;
    private static final String FULL = "No space left on device";

    @Test
    void aSplitThatFindsNoRoomLosesNothingAndIsDoneLater() throws Exception {
        try (LoneNode node = new LoneNode("nodes-of-full-disk")) {
            Path disk = node.cluster().layout(1).disks().get(0);
            run("umount", disk.toString());
            node.cluster().reset();
            Files.createDirectories(disk);
            int mounted =
                    run("mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", disk.toString());
            assumeTrue(mounted == 0,
                    "skipped: this user may not mount the small disk that is to be filled");
            try {
                node.start(OPTIONS);
                fillDuringSplit(node, disk);
            } finally {
                node.cluster().close();
                run("umount", disk.toString());
            }
        }
    }

    private static void fillDuringSplit(LoneNode node, Path disk) throws IOException {
        node.slowDown();
        Path ballast = disk.resolve("ballast");
        int tries = 0;
        long before = node.said(FULL);
        do {
            Files.deleteIfExists(ballast);
            assertTrue(tries++ < TRIES, "no split met the full disk");
            node.makeIt(CompactionReason.SPLIT, node::writeAndFlush);
            fill(ballast);
        } while (!node.saysSoon(FULL, before));
        node.assertRowsAreThere();
        assertEquals(160L << 20, Files.getFileStore(disk).getTotalSpace(), "it is the small disk");

        Files.delete(ballast);
        node.speedUp();
        node.writeAndFlush();
        TableOnNode files = new TableOnNode(node.cluster().layout(1), "k", "t");
        Await.until("the split is done after all", () ->
                files.count(Role.Kind.SEGMENT) < 6 && files.count(Role.Kind.RUN) > 0);
        node.assertAllIsWell();
        node.killAndRestart();
        node.assertAllIsWell();
    }

    private static void fill(Path ballast) throws IOException {
        byte[] block = new byte[4096];
        try (OutputStream out = Files.newOutputStream(ballast)) {
            while (true) {
                out.write(block);
            }
        } catch (IOException full) {
            if (!String.valueOf(full.getMessage()).contains(FULL)) {
                throw full;
            }
        }
    }

    private static int run(String... command) throws IOException, InterruptedException {
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start().waitFor();
    }
}
