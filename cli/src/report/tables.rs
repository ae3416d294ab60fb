//! The tables of the page.

use super::section;
use crate::doctor::facts::{Facts, number};
use crate::picture::svg::escaped;
use crate::text::{human_bytes, human_count};
use serde_json::Value;

/// Returns a table. The columns whose heading begins with `#` have numbers, and stand on the right.
fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let class = |heading: &str| if heading.starts_with('#') { " class=\"n\"" } else { "" };
    let head = headings.iter().map(|heading| {
        format!("<th{}>{}</th>", class(heading), escaped(heading.trim_start_matches('#')))
    });
    let head: String = head.collect();
    let row = |row: &Vec<String>| {
        let cells = row.iter().zip(headings);
        let cells =
            cells.map(|(cell, heading)| format!("<td{}>{}</td>", class(heading), escaped(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<table><tr>{head}</tr>\n{rows}</table>\n")
}

fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n{body}</details>\n")
}

fn word(told: &Value, field: &str) -> String {
    told[field].as_str().unwrap_or("–").replace('_', " ").replace("value gc", "value GC")
}

fn items(told: &Value) -> impl Iterator<Item = &Value> {
    told.as_array().into_iter().flatten()
}

/// Formats a span of time.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// Formats seconds since 1970 as a day and a time of UTC.
pub(super) fn day_and_time(seconds: u64) -> String {
    // Years begin in March here, so that a leap day is the last of its year; 400 years have the
    // same number of days again and again.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let year = era * 400 + year + later;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Write stalls by rule.
pub(super) fn stalls(facts: &Facts) -> String {
    let told = facts.stats["stalls"].as_object().into_iter().flatten();
    let rows = told.filter(|(_, stall)| number(stall, "count") > 0.0).map(|(rule, stall)| {
        let (count, seconds) = (number(stall, "count"), number(stall, "seconds"));
        let share = 100.0 * seconds / facts.uptime().max(1e-3);
        vec![
            rule.clone(),
            human_count(count as u64),
            span(seconds),
            format!("{:.2} ms", 1000.0 * seconds / count),
            format!("{share:.1} %"),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let headings = ["rule", "#writes", "#in all", "#each", "#of the time"];
    section("Write stalls", &table(&headings, &rows))
}

/// Who keeps old versions.
pub(super) fn holders(facts: &Facts) -> String {
    let rows = facts.holders().map(|holder| {
        vec![
            word(holder, "kind"),
            holder["keyspace"].as_str().unwrap_or("all").to_owned(),
            span(number(holder, "age_seconds")),
            human_count(number(holder, "versions") as u64),
            human_bytes(number(holder, "version_bytes") as u64),
            human_bytes(number(holder, "file_bytes") as u64),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let headings = ["kind", "keyspace", "#age", "#old versions", "#with", "#replaced files"];
    section("Who keeps old versions", &table(&headings, &rows))
}

/// What ran at that moment.
pub(super) fn jobs(facts: &Facts) -> String {
    let rows = items(&facts.jobs["jobs"]).map(|job| {
        let level = job["level"].as_u64().map_or("–".to_owned(), |level| format!("L{level}"));
        vec![
            word(job, "kind"),
            job["keyspace"].as_str().unwrap_or("–").to_owned(),
            level,
            word(job, "reason"),
            human_bytes(number(job, "bytes") as u64),
            span(number(job, "seconds")),
        ]
    });
    let rows: Vec<_> = rows.collect();
    section("Running", &table(&["job", "keyspace", "level", "reason", "#bytes", "#for"], &rows))
}

/// The latest events, the newest first.
pub(super) fn events(facts: &Facts) -> String {
    let rows = items(&facts.events).map(|event| {
        let time = number(event, "unix_seconds").max(0.0) as u64;
        // As it is: it has names, in which underscores mean something.
        vec![day_and_time(time), event["text"].as_str().unwrap_or_default().to_owned()]
    });
    let mut rows: Vec<_> = rows.collect();
    rows.reverse();
    if rows.is_empty() {
        return String::new();
    }
    let summary = format!("the last {} events, the newest first", rows.len());
    section("What happened", &folded(&summary, &table(&["time, UTC", "event"], &rows)))
}

/// The settings of the database and of each keyspace.
pub(super) fn settings(facts: &Facts) -> String {
    let rows = |told: &Value| -> Vec<Vec<String>> {
        let pairs = told.as_object().into_iter().flatten();
        let value = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        pairs.map(|(name, told)| vec![name.clone(), value(told)]).collect()
    };
    let headings = ["setting", "value"];
    let mut body = table(&headings, &rows(&facts.settings["database"]));
    for (name, told) in facts.settings["keyspaces"].as_object().into_iter().flatten() {
        let summary = format!("keyspace {}", escaped(name));
        body += &folded(&summary, &table(&headings, &rows(told)));
    }
    section("Settings", &body)
}

/// All counters.
pub(super) fn counters(facts: &Facts) -> String {
    let told = facts.stats.as_object().into_iter().flatten();
    let rows = told.filter_map(|(name, value)| {
        let count = value.as_u64()?;
        let shown = if name.contains("bytes") { human_bytes(count) } else { human_count(count) };
        Some(vec![name.clone(), shown])
    });
    let rows: Vec<_> = rows.collect();
    section("Counters", &folded("all numbers", &table(&["name", "#value"], &rows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day_and_time(0), "1970-01-01 00:00:00");
        assert_eq!(day_and_time(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(day_and_time(951_868_800), "2000-03-01 00:00:00");
        assert_eq!(day_and_time(4_102_444_799), "2099-12-31 23:59:59");
        assert_eq!(day_and_time(4_107_542_400), "2100-03-01 00:00:00");
    }

    #[test]
    fn spans_have_two_units() {
        assert_eq!(span(0.25), "0.2 s");
        assert_eq!(span(3725.0), "1 h 02 min");
        assert_eq!(span(90_000.0), "1 d 01 h");
    }
}
