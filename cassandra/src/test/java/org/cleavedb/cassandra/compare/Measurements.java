package org.cleavedb.cassandra.compare;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** The measurements of one run of one layout by name; one line in the file of results. */
final class Measurements {
    private static final String BETWEEN = "\t";

    final String layout;
    private final Map<String, Double> numbers = new LinkedHashMap<>();

    Measurements(String layout) {
        this.layout = layout;
    }

    void put(String name, double value) {
        numbers.put(name, value);
    }

    /** Not a number if it was not measured. */
    double get(String name) {
        return numbers.getOrDefault(name, Double.NaN);
    }

    String line() {
        StringBuilder line = new StringBuilder(layout);
        numbers.forEach((name, value) ->
                line.append(BETWEEN).append(name).append('=').append(value));
        return line.toString();
    }

    static Measurements parse(String line) {
        String[] parts = line.split(BETWEEN);
        Measurements figures = new Measurements(parts[0]);
        Arrays.stream(parts).skip(1).forEach(part -> {
            int at = part.indexOf('=');
            figures.put(part.substring(0, at), Double.parseDouble(part.substring(at + 1)));
        });
        return figures;
    }
}
