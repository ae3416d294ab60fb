//! Puts the parts of the screen together for the size of the terminal.

use super::row::{Look, Row};
use super::sample::Course;
use super::sections::{self, KeyspaceOrder};

/// The columns from which on there are two columns of parts.
const WIDE: usize = 140;
/// The columns of the left one, which the table of keyspaces needs.
const LEFT: usize = 80;
/// The rows from which on there is a blank one between parts.
const TALL: usize = 40;

/// What the user has chosen, and what is shown.
pub(crate) struct ScreenView<'a> {
    /// The database's directory.
    pub(crate) name: &'a str,
    pub(crate) order: KeyspaceOrder,
    /// How often the screen is redrawn, or why it is not.
    pub(crate) state: &'a str,
    /// What is to be said in place of the health, if the process has ended.
    pub(crate) notice: Option<&'a str>,
    /// True if keys are read, so that they are explained.
    pub(crate) has_keys: bool,
    pub(crate) colours: bool,
}

/// Returns the rows of a screen of `width` columns and `height` rows.
pub(crate) fn rows(
    course: &Course,
    view: &ScreenView<'_>,
    (width, height): (usize, usize),
) -> Vec<Row> {
    let height = height.max(1);
    let mut rows = vec![sections::title(course, view.name, view.state).fitted(width)];
    match view.notice {
        Some(notice) => rows.push(Row::of(Look::Bad, format!(" {notice}"))),
        None => rows.extend(sections::health(course)),
    }
    let has_keys = view.has_keys && height > 1;
    let room = height.saturating_sub(rows.len() + usize::from(has_keys));
    if width >= WIDE {
        let left = spaced(left(course, view), height);
        let right = right(course, view, width - LEFT - 2, room);
        let count = left.len().max(right.len());
        let mut sides = (left.into_iter(), right.into_iter());
        rows.extend((0..count).map(|_| {
            let (left, right) = (sides.0.next(), sides.1.next());
            left.unwrap_or_default().beside(LEFT + 2, right.unwrap_or_default())
        }));
    } else {
        let mut all = spaced(left(course, view), height);
        let room = room.saturating_sub(all.len());
        all.extend(right(course, view, width, room));
        rows.extend(all);
    }
    rows.truncate(height - usize::from(has_keys));
    if has_keys {
        rows.resize(height - 1, Row::default());
        rows.push(keys());
    }
    rows.into_iter().map(|row| row.fitted(width)).collect()
}

fn keys() -> Row {
    let keys = [
        ("q", "quit"),
        ("space", "pause"),
        ("+ -", "interval"),
        ("n e b m s", "sort keyspaces by a column"),
    ];
    let add = |row: Row, (key, what): (&str, &str)| {
        row.plain(" ").and(Look::Strong, key).and(Look::Faint, format!(" {what} "))
    };
    keys.into_iter().fold(Row::default(), add)
}

/// Joins parts, with a blank row behind each if the screen is tall.
fn spaced(parts: Vec<Vec<Row>>, height: usize) -> Vec<Row> {
    let blank = (height >= TALL).then(Row::default);
    parts.into_iter().flat_map(|part| part.into_iter().chain(blank.clone())).collect()
}

/// Rates beside latencies, stalls, memory, keyspaces.
fn left(course: &Course, view: &ScreenView<'_>) -> Vec<Vec<Row>> {
    let (traffic, latencies) = (sections::traffic(course), sections::latencies(course));
    let count = traffic.len().max(latencies.len());
    let mut sides = (traffic.into_iter(), latencies.into_iter());
    let beside = |_| {
        let (one, other) = (sides.0.next(), sides.1.next());
        one.unwrap_or_default().beside(42, other.unwrap_or_default())
    };
    let rates: Vec<Row> = (0..count).map(beside).collect();
    vec![
        rates,
        vec![sections::stalls(course)],
        sections::memory(course),
        sections::keyspaces(course, view.order),
    ]
}

/// Segments, jobs, holders, and events in the room that is left.
fn right(course: &Course, view: &ScreenView<'_>, width: usize, room: usize) -> Vec<Row> {
    let map_rows = (room / 3).max(1);
    let mut rows = sections::segments(course, width, map_rows, view.colours);
    if room >= 12 {
        rows.push(sections::legend(view.colours));
    }
    let blank = (room + rows.len() >= TALL).then(Row::default);
    rows.extend(blank.clone());
    rows.extend(sections::jobs(course));
    rows.extend(blank.clone());
    rows.push(sections::holders(course));
    rows.extend(blank);
    let left = room.saturating_sub(rows.len());
    rows.extend(sections::events(course, left));
    rows
}

/// Returns the screen as text without a cursor's movements.
pub(crate) fn text(rows: &[Row], colours: bool) -> String {
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        row.push_to(&mut line, colours);
        out.push_str(line.trim_end_matches(' '));
        out.push('\n');
    }
    out
}

/// Returns what draws the rows over whatever the terminal shows. They fill it, so nothing is
/// erased: behind the last column, that would erase the last letter.
pub(crate) fn drawn(rows: &[Row], colours: bool) -> String {
    let mut out = String::from("\x1b[H");
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push_str("\r\n");
        }
        row.push_to(&mut out, colours);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample::Sample;
    use serde_json::{Value, json};

    /// Answers of a process, of which the names try to change the terminal.
    fn sample() -> Sample {
        let level = json!({ "tables": 3, "bytes": 5 << 20, "score": 1.5 });
        let keyspace = json!({
            "name": "a\u{1b}[31mlong name of a keyspace", "table_entries": 12_345_678,
            "memtable_bytes": 7 << 20, "levels": vec![level; 7],
        });
        let segment = json!({ "sealed": true, "bytes": 100, "referenced_bytes": 50 });
        let stats = json!({
            "background_error": "cannot write", "keyspaces": vec![keyspace; 40],
            "segments": vec![segment; 5000], "entries_written": 5e9,
            "stalls": { "space_ceiling": { "count": 4, "seconds": 2.5 } },
        });
        let job = json!({ "kind": "compaction", "keyspace": "k", "level": 1, "bytes": 1 << 30,
                          "reason": "full_level", "seconds": 3.25 });
        let jobs = json!({ "holder": "process 1 (x)", "uptime_seconds": 100.0, "jobs": [job] });
        let event = json!({ "unix_seconds": 3661, "event": "stall_begun", "text": "write stall" });
        Sample::of(stats, jobs, json!([event]))
    }

    fn view(notice: Option<&'static str>, has_keys: bool) -> ScreenView<'static> {
        let (name, state, order) = ("db", "every 1 s", KeyspaceOrder::Score);
        ScreenView { name, order, state, notice, has_keys, colours: true }
    }

    #[test]
    fn every_size_is_filled_and_nothing_gets_out_of_it() {
        let course = Course::begin(sample());
        for size in [(1, 1), (20, 5), (80, 24), (100, 40), (139, 30), (140, 24), (300, 100)] {
            for has_keys in [true, false] {
                let rows = rows(&course, &view(None, has_keys), size);
                assert!(rows.len() <= size.1 && (!has_keys || rows.len() == size.1), "{size:?}");
                assert!(rows.iter().all(|row| row.width() == size.0), "{size:?}");
                let drawn = drawn(&rows, false);
                assert_eq!(drawn.matches('\x1b').count(), 1, "only our own codes");
            }
        }
    }

    #[test]
    fn what_matters_is_on_the_smallest_usual_screen() {
        let mut course = Course::begin(sample());
        course.go_on(sample());
        let shown = text(&rows(&course, &view(None, true), (80, 24)), false);
        assert!(shown.contains("BACKGROUND WORK FAILS: cannot write"), "{shown}");
        assert!(shown.contains("LATENCY") && shown.contains("KEYSPACE"), "{shown}");
        let text = text(&rows(&course, &view(Some("it has ended"), true), (140, 60)), false);
        assert!(text.contains("it has ended") && !text.contains("healthy"), "{text}");
        assert!(text.contains("compaction of k L1, 1.0 GiB, full level, 3.2 s"), "{text}");
        assert!(text.contains("01:01:01 write stall"), "{text}");
    }

    #[test]
    fn a_process_that_says_nothing_is_shown_too() {
        let course = Course::begin(Sample::of(Value::Null, Value::Null, Value::Null));
        assert_eq!(rows(&course, &view(None, true), (80, 24)).len(), 24);
    }
}
