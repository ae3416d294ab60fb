//! The charts of the page, as SVG within it.

use super::section;
use crate::doctor::facts::{Facts, number};
use crate::picture::svg::escaped;
use crate::text::{human_bytes, human_count};
use std::fmt::Write;

/// The width of all charts, in units that the browser scales.
const WIDTH: f64 = 930.0;
/// The width of labels before bars.
const LABEL: f64 = 170.0;
/// The width of numbers behind bars.
const NUMBER: f64 = 110.0;
/// The height of a row with a bar.
const ROW: f64 = 26.0;

/// The parts of the space, with the colours of the style sheet.
const PARTS: [(&str, &str); 8] = [
    ("live", "live"),
    ("tree", "tree"),
    ("log", "log"),
    ("pinned", "pinned"),
    ("garbage", "garbage"),
    ("obsolete", "obsolete"),
    ("metadata", "metadata"),
    ("other", "other"),
];

fn chart(height: f64, body: &str, about: &str) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{}\">{body}</svg>\n",
        escaped(about)
    )
}

fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let text = escaped(text);
    let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>");
}

/// Draws a rectangle with a tooltip.
fn bar(out: &mut String, (x, y, width): (f64, f64, f64), colour: &str, tooltip: &str) {
    let _ = write!(
        out,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"16\" rx=\"2\" \
         style=\"fill:var(--{colour})\"><title>{}</title></rect>",
        escaped(tooltip)
    );
}

fn bytes(amount: f64) -> String {
    human_bytes(amount.max(0.0) as u64)
}

/// What the blocks on disk hold: one bar, and the bounds of value GC.
pub(super) fn space(facts: &Facts) -> String {
    let parts = PARTS.map(|(name, colour)| (name, colour, number(&facts.space["parts"], name)));
    let all: f64 = parts.iter().map(|(_, _, part)| part).sum();
    if all <= 0.0 {
        return String::new();
    }
    let (mut body, mut x, mut legend) = (String::new(), 0.0, String::new());
    for (name, colour, part) in parts.into_iter().filter(|(_, _, part)| *part > 0.0) {
        let width = WIDTH * part / all;
        let told = format!("{name}: {}, {:.1} %", bytes(part), 100.0 * part / all);
        let _ = write!(
            body,
            "<rect x=\"{x:.1}\" y=\"0\" width=\"{width:.1}\" height=\"34\" \
             style=\"fill:var(--{colour})\"><title>{told}</title></rect>"
        );
        let _ = write!(legend, "<span><i style=\"background:var(--{colour})\"></i>{told}</span>");
        x += width;
    }
    let mut bounds = String::new();
    let told = |field: &str| facts.space[field].as_f64();
    if let (Some(settled), Some(ceiling)) = (told("settled_bytes"), told("ceiling_bytes")) {
        bounds = format!(
            "<p class=\"dim\">It settles at {}; the ceiling is {}.</p>\n",
            bytes(settled),
            bytes(ceiling)
        );
    }
    let drawn = chart(34.0, &body, "the parts of the space on disk");
    section("Space", &format!("{drawn}<div class=\"legend\">{legend}</div>\n{bounds}"))
}

/// Draws a bar for each row: label, amount, colour, tooltip.
fn bars(rows: &[(String, f64, &str, String)], about: &str) -> String {
    let most = rows.iter().map(|(_, amount, ..)| *amount).fold(1.0, f64::max);
    let mut body = String::new();
    for (index, (label, amount, colour, tooltip)) in rows.iter().enumerate() {
        let y = index as f64 * ROW + 4.0;
        let width = (WIDTH - LABEL - NUMBER) * amount / most;
        text(&mut body, 0.0, y + 13.0, "", label);
        // What is not there has no bar, and what is there can be seen.
        let width = if *amount > 0.0 { width.max(1.0) } else { 0.0 };
        bar(&mut body, (LABEL, y, width), colour, tooltip);
        text(&mut body, LABEL + width + 8.0, y + 13.0, "faint", &bytes(*amount));
    }
    chart(rows.len() as f64 * ROW + 4.0, &body, about)
}

/// What was written since the opening, and for what.
pub(super) fn written(facts: &Facts) -> String {
    let amount = |names: &[&str]| names.iter().map(|name| facts.number(name)).sum::<f64>();
    let rows = [
        ("by users", amount(&["user_bytes_written"]), "live"),
        ("log", amount(&["log_bytes_written"]), "log"),
        ("flushes", amount(&["flush_bytes_written"]), "tree"),
        ("compaction", amount(&["compaction_bytes_written"]), "tree"),
        ("value GC", amount(&["gc_bytes_moved", "gc_relocation_bytes"]), "garbage"),
        ("ingests", amount(&["ingest_bytes_written"]), "pinned"),
        ("manifest", amount(&["manifest_bytes_written"]), "metadata"),
    ];
    if rows.iter().all(|(_, amount, _)| *amount == 0.0) {
        return String::new();
    }
    let rows = rows.map(|(label, amount, colour)| {
        (label.to_owned(), amount, colour, format!("{label}: {}", bytes(amount)))
    });
    section("Written since the opening", &bars(&rows, "bytes written, by purpose"))
}

/// The levels of each keyspace that has tables.
pub(super) fn levels(facts: &Facts) -> String {
    let mut body = String::new();
    for (name, keyspace) in facts.keyspaces() {
        let levels = keyspace["levels"].as_array().into_iter().flatten().enumerate();
        let used = levels.filter(|(_, level)| number(level, "tables") > 0.0);
        let rows: Vec<_> = used
            .map(|(depth, level)| {
                let (tables, score) = (number(level, "tables"), number(level, "score"));
                let colour = if score >= 1.0 { "pinned" } else { "tree" };
                let told = format!("score {score:.2}; from 1 on its compaction is due");
                let some = if tables == 1.0 { "table" } else { "tables" };
                (format!("L{depth} · {tables:.0} {some}"), number(level, "bytes"), colour, told)
            })
            .collect();
        let about = format!(
            "{}: {} entries in tables, {} tombstones, {} in memtables",
            escaped(name),
            human_count(number(keyspace, "table_entries") as u64),
            human_count(number(keyspace, "tombstones") as u64),
            bytes(number(keyspace, "memtable_bytes"))
        );
        let _ = writeln!(body, "<h3>{about}</h3>");
        if !rows.is_empty() {
            body += &bars(&rows, &format!("levels of {name}"));
        }
    }
    section("Keyspaces and levels", &body)
}

/// The least and the greatest time of the chart of latencies, in microseconds, as powers of ten.
const DECADES: (i32, i32) = (-1, 7);

/// Where a time is on the logarithmic axis.
fn at(micros: f64) -> f64 {
    let (least, most) = DECADES;
    let decade = micros.max(1e-9).log10().clamp(f64::from(least), f64::from(most));
    LABEL + (WIDTH - LABEL - 20.0) * (decade - f64::from(least)) / f64::from(most - least)
}

fn time(micros: f64) -> String {
    match micros {
        micros if micros < 999.5 => format!("{micros:.1} µs"),
        micros if micros < 999.5e3 => format!("{:.1} ms", micros / 1e3),
        micros => format!("{:.1} s", micros / 1e6),
    }
}

/// Latencies: from the median to the 99.9th percentile, with a mark at the 99th and at the longest.
pub(super) fn latencies(facts: &Facts) -> String {
    let told = facts.stats["latencies"].as_object().into_iter().flatten();
    let told: Vec<_> = told.filter(|(_, latency)| number(latency, "count") > 0.0).collect();
    if told.is_empty() {
        return String::new();
    }
    let height = told.len() as f64 * ROW + 30.0;
    let mut body = String::new();
    for decade in DECADES.0..=DECADES.1 {
        let (x, label) = (at(10f64.powi(decade)), time(10f64.powi(decade)));
        let bottom = height - 24.0;
        let _ = write!(
            body,
            "<line class=\"grid\" x1=\"{x:.1}\" y1=\"0\" x2=\"{x:.1}\" y2=\"{bottom}\"/>"
        );
        text(&mut body, x - 18.0, height - 6.0, "faint", label.replace(".0", "").as_str());
    }
    for (index, (name, latency)) in told.into_iter().enumerate() {
        let y = index as f64 * ROW + 4.0;
        let [median, high, higher, longest] =
            ["p50", "p99", "p999", "max"].map(|field| number(latency, field));
        let about = format!(
            "{} measured; median {}, 99 % {}, 99.9 % {}, longest {}",
            human_count(number(latency, "count") as u64),
            time(median),
            time(high),
            time(higher),
            time(longest)
        );
        text(&mut body, 0.0, y + 13.0, "", &name.replace('_', " "));
        let width = (at(higher) - at(median)).max(3.0);
        bar(&mut body, (at(median), y, width), "log", &about);
        for (place, colour) in [(high, "page"), (longest, "garbage")] {
            let x = at(place);
            let _ = write!(
                body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"2.5\" height=\"16\" \
                 style=\"fill:var(--{colour})\"><title>{about}</title></rect>"
            );
        }
    }
    let drawn = chart(height, &body, "latencies");
    let legend = "<p class=\"dim\">From the median to 99.9 %, with a gap at 99 %. Red: the \
                  longest. Of reads, writes and steps of scans, one in 16 is measured.</p>\n";
    section("Latencies", &format!("{drawn}{legend}"))
}
