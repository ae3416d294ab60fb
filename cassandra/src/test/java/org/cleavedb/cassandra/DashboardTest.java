package org.cleavedb.cassandra;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Checks that the Grafana dashboard shows exactly the numeric attributes of the JMX bean. */
class DashboardTest {
    /** The name that the JMX exporter gives an attribute by default: domain, type, attribute. */
    private static final Pattern METRIC =
            Pattern.compile("org_cleavedb_cassandra_ReplicaDecoupling_(\\w+)");

    @Test
    void everyMetricIsAnAttributeAndEveryAttributeIsShown() throws IOException {
        JsonNode dashboard = new ObjectMapper().readTree(
                Path.of("dashboard", "replica-decoupling.json").toFile());
        Set<String> asked = new TreeSet<>();
        List<JsonNode> expressions = dashboard.findValues("expr");
        assertTrue(expressions.size() > 10);
        for (JsonNode expression : expressions) {
            asked.addAll(metrics(expression.asText()));
        }
        assertEquals(numericAttributes(), asked);
        for (JsonNode variable : dashboard.path("templating").path("list")) {
            String query = variable.path("query").asText();
            assertTrue(query.equals("prometheus")
                    || numericAttributes().containsAll(metrics(query)), query);
        }
    }

    private static Set<String> metrics(String expression) {
        Set<String> names = new TreeSet<>();
        Matcher matcher = METRIC.matcher(expression);
        while (matcher.find()) {
            names.add(matcher.group(1));
        }
        assertTrue(!names.isEmpty(), expression);
        return names;
    }

    private static Set<String> numericAttributes() {
        Set<String> names = new TreeSet<>();
        for (Method method : ReplicaDecouplingMXBean.class.getMethods()) {
            if (method.getReturnType().isPrimitive()) {
                names.add(method.getName().substring("get".length()));
            }
        }
        return names;
    }
}
