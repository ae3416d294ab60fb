//! The page of `cleave report`: one HTML file that needs nothing else, to be sent with a question.
//! [`charts`] draws, [`tables`] has rows and columns, [`style`] the looks.

mod charts;
mod style;
mod tables;

use crate::doctor::facts::{Facts, number};
use crate::doctor::rules::{RULES, Symptom, Urgency, examine};
use crate::live::pictured;
use crate::picture::{Caption, svg};
use crate::text::{counted, human_bytes, human_count};
use std::time::SystemTime;
use svg::escaped;

/// Returns the page about the database called `name`.
pub(crate) fn page(facts: &Facts, name: &str) -> String {
    let title = escaped(&format!("Report of {name}"));
    let symptoms = examine(facts);
    let parts = [
        summary(facts),
        findings(&symptoms),
        charts::space(facts),
        charts::written(facts),
        charts::levels(facts),
        charts::latencies(facts),
        tables::stalls(facts),
        tables::holders(facts),
        tables::jobs(facts),
        map(facts, name),
        tables::events(facts),
        tables::settings(facts),
        tables::counters(facts),
    ];
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>{}</style></head>\n<body><main>\n<h1>{title}</h1>\n<p class=\"dim\">{}</p>\n{}\
         <footer class=\"dim\">It has names of keyspaces, sizes, counts and settings, but no \
         key and no value.</footer>\n</main></body></html>\n",
        style::CSS,
        escaped(&origin(facts)),
        parts.concat()
    )
}

/// Returns a part of the page, or nothing if it has no body.
fn section(title: &str, body: &str) -> String {
    if body.is_empty() {
        return String::new();
    }
    format!("<section><h2>{title}</h2>\n{body}</section>\n")
}

/// Says when this was made, and who told it.
fn origin(facts: &Facts) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let when = tables::day_and_time(now.as_secs());
    let made = format!("made {when} UTC by cleave {}", env!("CARGO_PKG_VERSION"));
    match facts.jobs["holder"].as_str() {
        Some(holder) => format!(
            "{made}; told by {holder}, with CleaveDB {}, open for {}",
            facts.jobs["version"].as_str().unwrap_or("?"),
            tables::span(facts.uptime())
        ),
        None => format!("{made}; no process had it open, so there are no counters of one"),
    }
}

/// The most important numbers, large.
fn summary(facts: &Facts) -> String {
    let size = |field: &str| human_bytes(number(&facts.space, field) as u64);
    let keyspaces = facts.space["keyspaces"].as_array().into_iter().flatten();
    let entries: f64 = keyspaces.map(|keyspace| number(keyspace, "entries")).sum();
    let ratio = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    let mut tiles = vec![
        ("on disk", size("allocated")),
        ("live", size("live_bytes")),
        ("space amplification", ratio(facts.space["amplification"].as_f64())),
        ("keys", human_count(entries as u64)),
    ];
    // An opening of our own has made no commits.
    if !facts.jobs.is_null() {
        tiles.push(("commits", human_count(facts.number("commits") as u64)));
        let written = ratio(facts.stats["write_amplification"].as_f64());
        tiles.push(("write amplification", written));
    }
    let tile = |(what, value): (&str, String)| {
        format!("<div class=\"tile\"><b>{}</b><span>{what}</span></div>", escaped(&value))
    };
    format!("<div class=\"tiles\">{}</div>\n", tiles.into_iter().map(tile).collect::<String>())
}

/// Escapes a sentence, in which what stands between backticks is code.
fn marked(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let marked = parts.map(|(index, part)| match index % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    marked.collect()
}

/// What `cleave doctor` says.
fn findings(symptoms: &[Symptom]) -> String {
    if symptoms.is_empty() {
        let text = format!("<p class=\"well\">Nothing unusual, by {} rules.</p>\n", RULES.len());
        return section("Findings", &text);
    }
    let card = |symptom: &Symptom| {
        let class = if symptom.urgency == Urgency::Act { "act" } else { "look" };
        format!(
            "<div class=\"card {class}\"><b>{}</b><p>{}</p><p>Try: {}</p></div>\n",
            marked(&symptom.what),
            marked(symptom.why),
            marked(&symptom.advice)
        )
    };
    section("Findings", &symptoms.iter().map(card).collect::<String>())
}

/// The map of the segments, folded in if it is long.
fn map(facts: &Facts, name: &str) -> String {
    const MOST_ROWS: usize = 40;
    let report = pictured::report(&facts.space);
    if report.segments.is_empty() {
        return String::new();
    }
    let open = if report.segments.len() <= MOST_ROWS { " open" } else { "" };
    let count = counted(report.segments.len() as u64, "segment");
    let drawn = svg::draw(&report, &Caption::now(name.to_owned()));
    let body = format!(
        "<details{open}><summary>{count}</summary>\n<div class=\"wide\">{drawn}</div>\n\
         </details>\n"
    );
    section("Segments", &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns facts with names that try to become markup.
    fn facts() -> Facts {
        let level = json!({ "tables": 3, "bytes": 5 << 20, "score": 0.5 });
        Facts {
            stats: json!({
                "keyspaces": [{ "name": "<script>alert(1)</script>", "levels": vec![level; 7] }],
                "latencies": { "write": { "count": 9, "mean": 9.0, "p50": 3.0, "p99": 20.0,
                                          "p999": 900.0, "max": 1000.0 } },
                "stalls": { "space_ceiling": { "count": 4, "seconds": 2.5 } },
                "commits": 1234, "log_bytes_written": 5 << 20,
            }),
            space: json!({
                "allocated": 6 << 20, "live_bytes": 5 << 20, "amplification": 1.2,
                "parts": { "live": 5 << 20, "garbage": 1 << 20 },
                "segments": [{ "id": 1, "cells": [[50, 0, 50, 0, 0, 0]], "reason": "a<b" }],
            }),
            settings: json!({ "database": { "durability": "os & more" }, "keyspaces": {} }),
            jobs: json!({ "holder": "process 1", "uptime_seconds": 90.0, "gc_paused": true }),
            events: json!([{ "unix_seconds": 3661.0, "event": "opened", "text": "<opened> a_b" }]),
        }
    }

    #[test]
    fn the_page_is_whole_and_names_stay_text() {
        let page = page(&facts(), "a<b");
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("<script") && !page.contains("<opened>") && !page.contains("a<b"));
        for part in [
            "Report of a&lt;b",
            "&lt;opened&gt; a_b",
            "os &amp; more",
            "01:01:01",
            "space_ceiling",
            "1 234",
        ] {
            assert!(page.contains(part), "{part} is not there");
        }
        for tag in ["section", "table", "svg", "details", "div", "tr"] {
            let count = |text: &str| page.matches(text).count();
            let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
            assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
        }
        assert!(
            page.contains("Value GC is paused.") && page.contains("<code>cleave resume</code>")
        );
    }

    #[test]
    fn the_page_asks_nobody_for_anything() {
        let page = page(&facts(), "db");
        // Names of patterns that are in the page itself begin with a hash.
        let without_names = page.replace("http://www.w3.org/2000/svg", "").replace("url(#", "");
        for way_out in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!without_names.contains(way_out), "{way_out}");
        }
    }
}
