package org.cleavedb.cassandra.cluster;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The arguments with which Cassandra 5.0 runs on Java 17, in little memory. */
final class JavaArguments {
    private static final List<String> EXPORTED = List.of(
            "java.base/jdk.internal.misc", "java.base/java.lang.ref",
            "java.management.rmi/com.sun.jmx.remote.internal.rmi",
            "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server",
            "java.sql/java.sql", "jdk.unsupported/sun.misc", "jdk.attach/sun.tools.attach");

    private static final List<String> OPENED = List.of(
            "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect",
            "java.base/java.util", "java.base/java.io", "java.base/sun.nio.ch",
            "java.base/jdk.internal.loader", "java.base/jdk.internal.ref",
            "java.base/jdk.internal.reflect", "java.base/jdk.internal.math",
            "java.base/jdk.internal.module", "java.base/jdk.internal.util.jar",
            "jdk.management/com.sun.management.internal");

    private JavaArguments() {
    }

    static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    /** The arguments of a node. */
    static List<String> forNode(String classPath, String heap) {
        List<String> arguments = new ArrayList<>(access());
        // Memtables measure themselves with this agent, as in Cassandra's own start script.
        arguments.add("-javaagent:" + jar(classPath, "jamm-"));
        arguments.add("-ea");
        arguments.add("-da:net.openhft...");
        arguments.add("-Xms" + heap);
        arguments.add("-Xmx" + heap);
        arguments.add("-Xss256k");
        arguments.add("-XX:+UseSerialGC");
        arguments.add("-XX:+ExitOnOutOfMemoryError");
        arguments.add("-Djdk.attach.allowAttachSelf=true");
        arguments.add("-Djava.net.preferIPv4Stack=true");
        arguments.add("-Dio.netty.tryReflectionSetAccessible=true");
        arguments.add("-Dcassandra.available_processors=2");
        // Alone on one machine, there is no gossip to wait for; but while a node is missing, the
        // second is also how long Cassandra waits before it tries again, so not 0.
        arguments.add("-Dcassandra.skip_wait_for_gossip_to_settle=0");
        arguments.add("-Dcassandra.superuser_setup_delay_ms=1000");
        return arguments;
    }

    /** The arguments of `nodetool`, which shares the node's class path. */
    static List<String> forTool(Path home) {
        List<String> arguments = new ArrayList<>(access());
        arguments.add("-Xmx128M");
        arguments.add("-XX:TieredStopAtLevel=1");
        arguments.add("-Duser.home=" + home);
        return arguments;
    }

    private static List<String> access() {
        List<String> arguments = new ArrayList<>();
        EXPORTED.forEach(name -> arguments.add("--add-exports=" + name + "=ALL-UNNAMED"));
        OPENED.forEach(name -> arguments.add("--add-opens=" + name + "=ALL-UNNAMED"));
        return arguments;
    }

    private static String jar(String classPath, String prefix) {
        for (String entry : classPath.split(File.pathSeparator)) {
            if (new File(entry).getName().startsWith(prefix)) {
                return entry;
            }
        }
        throw new IllegalStateException("no " + prefix + "*.jar on the class path of the nodes: "
                + "run `mvn test-compile` in cassandra/ first");
    }
}
