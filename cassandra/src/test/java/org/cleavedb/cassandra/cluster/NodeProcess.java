package org.cleavedb.cassandra.cluster;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * One running node. It is known by the process id in its folder, so that another run of the
 * command line can stop what an earlier one started; nothing is ever ended by name.
 */
final class NodeProcess {
    private static final long START_LIMIT_MS = TimeUnit.MINUTES.toMillis(5);
    private static final long STOP_LIMIT_MS = TimeUnit.MINUTES.toMillis(2);
    private static final int LINES_OF_A_FAILURE = 30;

    private final NodeLayout layout;

    NodeProcess(NodeLayout layout) {
        this.layout = layout;
    }

    /** Starts the node; {@link #awaitReady} tells when it serves. */
    void start() throws IOException {
        if (handle().isPresent()) {
            throw new IllegalStateException("node " + layout.number + " already runs");
        }
        if (answers("127.0.0.1", layout.jmxPort()) || acceptsClients()) {
            // It would end at once, and the other one be taken for it.
            throw new IOException("node " + layout.number + " can't start: somebody else, perhaps "
                    + "another Cassandra, has port " + layout.jmxPort() + " of 127.0.0.1 or port "
                    + NodeLayout.CQL_PORT + " of " + layout.address());
        }
        layout.write();
        Process process = new ProcessBuilder(layout.command())
                .directory(layout.folder.toFile())
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(layout.output().toFile()))
                .start();
        Files.writeString(layout.processId(), Long.toString(process.pid()));
    }

    /** Returns once the node accepts clients; fails at once if it has died. */
    void awaitReady() throws IOException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(START_LIMIT_MS);
        while (!acceptsClients()) {
            if (handle().isEmpty()) {
                throw new IOException("node " + layout.number + " died while it started; its last "
                        + "words are in " + layout.log() + ":\n" + lastWords());
            }
            if (System.nanoTime() > deadline) {
                throw new IOException("node " + layout.number + " has not opened port "
                        + NodeLayout.CQL_PORT + " after " + START_LIMIT_MS / 1000 + " s; see "
                        + layout.log());
            }
            Cluster.pause();
        }
    }

    /** Asks the node to end, and waits for it. */
    void stop() throws IOException {
        Optional<ProcessHandle> running = handle();
        if (running.isPresent()) {
            running.get().destroy();
            awaitEnd(running.get());
        }
        Files.deleteIfExists(layout.processId());
    }

    /** Ends the node as a crash of its process would. */
    void kill() throws IOException {
        Optional<ProcessHandle> running = handle();
        if (running.isPresent()) {
            running.get().destroyForcibly();
            awaitEnd(running.get());
        }
        Files.deleteIfExists(layout.processId());
    }

    boolean runs() {
        return handle().isPresent();
    }

    long processId() {
        return handle().map(ProcessHandle::pid).orElseThrow(() -> new IllegalStateException(
                "node " + layout.number + " does not run; see " + layout.log()));
    }

    private void awaitEnd(ProcessHandle process) throws IOException {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(STOP_LIMIT_MS);
        while (process.isAlive()) {
            if (System.nanoTime() > deadline) {
                throw new IOException("node " + layout.number + " (process " + process.pid()
                        + ") does not end; see " + layout.log());
            }
            Cluster.pause();
        }
    }

    private Optional<ProcessHandle> handle() {
        try {
            long pid = Long.parseLong(Files.readString(layout.processId()).trim());
            // A process id may have gone to somebody else since: only a Java of ours counts.
            return ProcessHandle.of(pid).filter(ProcessHandle::isAlive).filter(this::isOurs);
        } catch (IOException | NumberFormatException absent) {
            return Optional.empty();
        }
    }

    private boolean isOurs(ProcessHandle process) {
        // The kernel's own listing is the only one that is not cut short.
        try {
            byte[] line = Files.readAllBytes(
                    Path.of("/proc", Long.toString(process.pid()), "cmdline"));
            return new String(line, StandardCharsets.UTF_8).contains(layout.folder.toString());
        } catch (IOException noSuchListing) {
            return process.info().commandLine().map(line -> line.contains("java")).orElse(true);
        }
    }

    private boolean acceptsClients() {
        return answers(layout.address(), NodeLayout.CQL_PORT);
    }

    private static boolean answers(String address, int port) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(address, port), 1000);
            return true;
        } catch (IOException nobodyThere) {
            return false;
        }
    }

    private String lastWords() throws IOException {
        StringBuilder words = new StringBuilder();
        for (Path file : List.of(layout.log(), layout.output())) {
            if (Files.exists(file)) {
                List<String> lines = Files.readAllLines(file);
                int from = Math.max(0, lines.size() - LINES_OF_A_FAILURE);
                lines.subList(from, lines.size()).forEach(line -> words.append(line).append('\n'));
            }
        }
        return words.toString();
    }
}
