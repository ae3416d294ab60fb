package org.cleavedb.cassandra.compare;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Horizontal bars as SVG that needs nothing else: readable in a browser and in a repository. */
final class BarChart {
    private static final List<String> COLOURS = List.of("#4477aa", "#ee7733");
    private static final int LABELS = 110;
    private static final int BARS = 480;
    private static final int ROW = 26;
    private static final int TOP = 56;
    private static final int NUMBERS = 60;

    private final String title;
    private final List<String> parts;
    private final List<String> names = new ArrayList<>();
    private final List<double[]> values = new ArrayList<>();
    private boolean stacked;

    BarChart(String title, List<String> parts) {
        this.title = title;
        this.parts = parts;
    }

    void stacked(String name, double... of) {
        stacked = true;
        names.add(name);
        values.add(of);
    }

    void sideBySide(String name, double... of) {
        names.add(name);
        values.add(of);
    }

    String svg() {
        int height = TOP + ROW * names.size() + 8;
        StringBuilder svg = new StringBuilder(String.format(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                + "font-family=\"sans-serif\" font-size=\"12\">%n"
                + "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>%n",
                LABELS + BARS + NUMBERS, height));
        text(svg, 8, 18, "14", title);
        for (int part = 0; part < parts.size(); part++) {
            int left = LABELS + part * 110;
            rectangle(svg, left, 28, 12, 12, part);
            text(svg, left + 18, 39, "12", parts.get(part));
        }
        double scale = BARS / values.stream().mapToDouble(this::length).max().orElse(1);
        for (int row = 0; row < names.size(); row++) {
            row(svg, TOP + row * ROW, names.get(row), values.get(row), scale);
        }
        return svg.append("</svg>\n").toString();
    }

    private double length(double[] of) {
        double sum = 0;
        double most = 0;
        for (double value : of) {
            sum += Double.isNaN(value) ? 0 : value;
            most = Math.max(most, Double.isNaN(value) ? 0 : value);
        }
        return stacked ? sum : most;
    }

    private void row(StringBuilder svg, int top, String name, double[] of, double scale) {
        text(svg, 8, top + 14, "12", name);
        int bar = stacked ? ROW - 8 : (ROW - 6) / of.length;
        double left = LABELS;
        for (int part = 0; part < of.length; part++) {
            if (Double.isNaN(of[part])) {
                continue;
            }
            int y = stacked ? top : top + part * bar;
            rectangle(svg, left, y, of[part] * scale, bar - 1, part);
            if (stacked) {
                left += of[part] * scale;
            } else {
                text(svg, left + of[part] * scale + 4, y + bar - 1, "9", number(of[part]));
            }
        }
        if (stacked) {
            text(svg, left + 6, top + 14, "12", number(length(of)));
        }
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.2f", value);
    }

    private static void rectangle(StringBuilder svg, double x, double y, double width,
            double height, int part) {
        svg.append(String.format(Locale.ROOT,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>%n",
                x, y, width, height, COLOURS.get(part)));
    }

    private static void text(StringBuilder svg, double x, double y, String size, String words) {
        svg.append(String.format(Locale.ROOT,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%s\">%s</text>%n", x, y, size, words));
    }
}
