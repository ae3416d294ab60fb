//! The parts of the screen, each some rows.

use super::row::{Look, Row};
use super::sample::Course;
use crate::text::{human_bytes, human_count};
use serde_json::Value;
use std::collections::VecDeque;

/// The characters of small charts and of segments, from nothing to full.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The columns of a small chart, which fits between rates and latencies.
const CHART: usize = 11;

/// The order of keyspaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyspaceOrder {
    Name,
    Entries,
    Bytes,
    Memory,
    Score,
}

impl KeyspaceOrder {
    /// Returns the order that a key stands for.
    pub(crate) fn of_key(key: u8) -> Option<KeyspaceOrder> {
        match key {
            b'n' => Some(KeyspaceOrder::Name),
            b'e' => Some(KeyspaceOrder::Entries),
            b'b' => Some(KeyspaceOrder::Bytes),
            b'm' => Some(KeyspaceOrder::Memory),
            b's' => Some(KeyspaceOrder::Score),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            KeyspaceOrder::Name => "name",
            KeyspaceOrder::Entries => "entries",
            KeyspaceOrder::Bytes => "bytes",
            KeyspaceOrder::Memory => "memory",
            KeyspaceOrder::Score => "score",
        }
    }
}

fn heading(text: &str) -> Row {
    Row::of(Look::Strong, text)
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_default()
}

/// Formats a count in at most five characters: `12345`, `1.2M`.
fn short_count(count: f64) -> String {
    match count {
        count if count < 9999.5 => format!("{count:.0}"),
        count if count < 999.5e3 => format!("{:.0}k", count / 1e3),
        count if count < 99.95e6 => format!("{:.1}M", count / 1e6),
        count if count < 999.5e6 => format!("{:.0}M", count / 1e6),
        count => format!("{:.1}G", count / 1e9),
    }
}

/// Formats a size in at most five characters: `340K`, `1.2G`; a dot if there is nothing.
fn short_bytes(bytes: f64) -> String {
    if bytes < 1.0 {
        return "·".into();
    }
    let (mut size, mut unit) = (bytes, 0);
    while size >= 999.5 && unit < 4 {
        size /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(size < 9.95 && unit > 0);
    format!("{size:.digits$}{}", ["B", "K", "M", "G", "T"][unit])
}

fn bytes(amount: f64) -> String {
    human_bytes(amount.max(0.0) as u64)
}

/// Formats microseconds: `4.2 µs`, `1.3 ms`, `2.0 s`; a dot if nothing was measured.
fn short_time(micros: f64) -> String {
    match micros {
        micros if micros <= 0.0 => "·".into(),
        micros if micros < 999.5 => format!("{micros:.1} µs"),
        micros if micros < 999.5e3 => format!("{:.1} ms", micros / 1e3),
        micros => format!("{:.1} s", micros / 1e6),
    }
}

fn short_span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Returns a chart of the last values, as high as their share of the highest.
fn chart(values: &VecDeque<f64>) -> String {
    let most = values.iter().fold(0.0, |most: f64, value| most.max(*value));
    let last = values.iter().skip(values.len().saturating_sub(CHART));
    let block = |value: &f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        BLOCKS[(share * 8.0).ceil().clamp(0.0, 8.0) as usize]
    };
    let drawn: String = last.map(block).collect();
    format!("{drawn:>CHART$}")
}

/// The bar at the top: what is looked at.
pub(crate) fn title(course: &Course, name: &str, state: &str) -> Row {
    let holder = course.now.jobs["holder"].as_str().unwrap_or_default();
    let up = short_span(course.now.uptime());
    Row::of(Look::Bar, format!(" {name}  ·  {holder}  ·  up {up}  ·  {state} "))
}

/// What is wrong, or that nothing is.
pub(crate) fn health(course: &Course) -> Vec<Row> {
    let mut rows = Vec::new();
    let stats = &course.now.stats;
    let mut tell = |look, what: &str, text: &Value| {
        if let Some(text) = text.as_str() {
            rows.push(Row::of(look, format!(" {what}: {text}")));
        }
    };
    tell(Look::Bad, "READ-ONLY", &stats["read_only_because"]);
    tell(Look::Bad, "PUTS ARE REFUSED", &stats["low_on_space"]);
    tell(Look::Bad, "BACKGROUND WORK FAILS", &stats["background_error"]);
    if course.now.jobs["gc_paused"] == true {
        rows.push(Row::of(Look::Warning, " value GC is paused: `cleave resume` ends that"));
    }
    if rows.is_empty() {
        rows.push(Row::of(Look::Good, " healthy"));
    }
    rows
}

/// Rates of writes, reads, and the work that follows.
pub(crate) fn traffic(course: &Course) -> Vec<Row> {
    let over = if course.is_first() { "since the opening" } else { "now" };
    let mut rows = vec![heading("PER SECOND").and(Look::Faint, format!("  {over}"))];
    let mut row = |label: &str, count: Option<f64>, size: Option<f64>, course: Option<String>| {
        let count = count.map_or(String::new(), short_count);
        let size = size.map_or(String::new(), bytes);
        let row =
            Row::of(Look::Faint, format!("{label:<11}")).plain(format!("{count:>6} {size:>11}"));
        rows.push(match course {
            Some(chart) => row.plain(" ").and(Look::Good, chart),
            // The log's count is not what its label says.
            None if label == "log" => row.and(Look::Faint, "   (syncs)"),
            None => row,
        });
    };
    let rate = |name: &str| course.rate(name);
    let some = |name: &str| Some(rate(name));
    row(
        "entries",
        some("entries_written"),
        some("user_bytes_written"),
        Some(chart(&course.writes)),
    );
    row("gets", some("gets"), None, Some(chart(&course.reads)));
    row("values read", some("value_reads"), some("value_bytes_read"), None);
    row("log", some("log_syncs"), some("log_bytes_written"), None);
    row("flushes", some("flushes"), some("flush_bytes_written"), None);
    row("compaction", some("compactions"), some("compaction_bytes_written"), None);
    let by_gc = rate("gc_bytes_moved") + rate("gc_relocation_bytes");
    row("value GC", some("gc_relocations"), Some(by_gc), None);
    rows
}

/// Latencies since the opening.
pub(crate) fn latencies(course: &Course) -> Vec<Row> {
    let title = format!("{:<11}{:>9}{:>9}{:>9}", "LATENCY", "median", "99 %", "99.9 %");
    let mut rows = vec![heading(&title)];
    for name in ["write", "get", "scan_step", "flush", "compaction", "stall"] {
        let told = &course.now.stats["latencies"][name];
        if number(told, "count") == 0.0 && !matches!(name, "write" | "get") {
            continue;
        }
        let times = ["p50", "p99", "p999"].map(|quantile| short_time(number(told, quantile)));
        let label = Row::of(Look::Faint, format!("{:<11}", name.replace('_', " ")));
        rows.push(label.plain(format!("{:>9}{:>9}{:>9}", times[0], times[1], times[2])));
    }
    rows
}

/// Write stalls: which rule held writers up, and for what part of the time.
pub(crate) fn stalls(course: &Course) -> Row {
    let mut row = heading("STALLS ");
    let mut is_quiet = true;
    for (reason, told) in course.now.stats["stalls"].as_object().into_iter().flatten() {
        let grown = |field: &str| course.growth(|stats| number(&stats["stalls"][reason], field));
        let (count, seconds) = (grown("count"), grown("seconds"));
        if count == 0.0 && (seconds == 0.0 || number(told, "count") == 0.0) {
            continue;
        }
        is_quiet = false;
        let share = 100.0 * seconds / course.seconds();
        let look = if share >= 20.0 { Look::Bad } else { Look::Warning };
        row = row.and(look, format!(" {reason} {share:.0} %")).and(
            Look::Faint,
            format!(
                " ({} writes, {} each)",
                short_count(count),
                short_time(seconds * 1e6 / count.max(1.0))
            ),
        );
    }
    if is_quiet { row.and(Look::Good, " none") } else { row }
}

/// Memory, and what a restart would cost.
pub(crate) fn memory(course: &Course) -> Vec<Row> {
    let now = |name: &str| course.now.number(name);
    let memtables = course.now.stats["keyspaces"].as_array().into_iter().flatten();
    let memtables: f64 = memtables.map(|keyspace| number(keyspace, "memtable_bytes")).sum();
    let (hits, misses) = (course.rate("cache_hits"), course.rate("cache_misses"));
    let pair = |row: Row, label: &str, value: String| {
        row.and(Look::Faint, format!("{label} ")).plain(format!("{value}  "))
    };
    let of = |part: f64, whole: f64| format!("{} of {}", bytes(part), bytes(whole));
    let hit_rate = match hits + misses {
        asked if asked > 0.0 => format!("{:.1} % hits", 100.0 * hits / asked),
        _ => "not asked".into(),
    };
    let first =
        pair(heading("MEMORY  "), "memtables", of(memtables, now("memtable_capacity_bytes")));
    let first = pair(first, "indexes and filters", bytes(now("index_and_filter_bytes")));
    let second = Row::default().plain("        ");
    let cache = of(now("cache_bytes"), now("cache_capacity_bytes"));
    let second = pair(second, "cache", format!("{cache}, {hit_rate}"));
    let second = pair(second, "replay", bytes(now("replay_bytes")));
    vec![first, second]
}

/// Keyspaces with their levels.
pub(crate) fn keyspaces(course: &Course, order: KeyspaceOrder) -> Vec<Row> {
    let mut head = format!("{:<11}{:>7}{:>6}{:>5}", "KEYSPACE", "entries", "mem", "L0");
    (1..=6).for_each(|level| head += &format!("{:>6}", format!("L{level}")));
    let head = heading(&format!("{head}{:>6}", "score"));
    let mut rows = vec![head.and(Look::Faint, format!(" ▾{}", order.name()))];
    let told = course.now.stats["keyspaces"].as_array();
    let mut told: Vec<&Value> = told.into_iter().flatten().collect();
    let levels = |keyspace: &Value| keyspace["levels"].as_array().cloned().unwrap_or_default();
    let size =
        |keyspace: &Value| levels(keyspace).iter().map(|it| number(it, "bytes")).sum::<f64>();
    let urgency = |keyspace: &Value| {
        levels(keyspace).iter().map(|it| number(it, "score")).fold(0.0, f64::max)
    };
    let key = |keyspace: &Value| match order {
        KeyspaceOrder::Name => 0.0,
        KeyspaceOrder::Entries => number(keyspace, "table_entries"),
        KeyspaceOrder::Bytes => size(keyspace),
        KeyspaceOrder::Memory => number(keyspace, "memtable_bytes"),
        KeyspaceOrder::Score => urgency(keyspace),
    };
    // Equal ones stay in the order of their names, in which they are told.
    told.sort_by(|a, b| key(b).total_cmp(&key(a)));
    for keyspace in told {
        let name = keyspace["name"].as_str().unwrap_or("?");
        let mut row = Row::of(Look::Plain, name).fitted(11).plain(" ");
        row = row.plain(format!("{:>6}", short_count(number(keyspace, "table_entries"))));
        row = row.plain(format!("{:>6}", short_bytes(number(keyspace, "memtable_bytes"))));
        for (level, told) in levels(keyspace).iter().enumerate() {
            let look = if number(told, "score") >= 1.0 { Look::Warning } else { Look::Plain };
            row = match level {
                0 => row.and(look, format!("{:>5}", short_count(number(told, "tables")))),
                _ => row.and(look, format!("{:>6}", short_bytes(number(told, "bytes")))),
            };
        }
        let score = urgency(keyspace);
        let look = if score >= 1.0 { Look::Warning } else { Look::Plain };
        rows.push(row.and(look, format!("{score:>6.2}")));
    }
    rows
}

/// Segments: one cell for each, as high as the share of it that tables refer to.
pub(crate) fn segments(course: &Course, width: usize, most_rows: usize, colours: bool) -> Vec<Row> {
    let told = course.now.stats["segments"].as_array();
    let told: Vec<&Value> = told.into_iter().flatten().collect();
    let sum = |field: &str| told.iter().map(|segment| number(segment, field)).sum::<f64>();
    let (all, used) = (sum("bytes"), sum("referenced_bytes"));
    let head = heading("SEGMENTS").plain(format!(
        "  {} with {}, of which tables refer to {}",
        told.len(),
        bytes(all),
        bytes(used)
    ));
    let mut rows = vec![head];
    let cells: Vec<(Look, char)> = told.iter().map(|segment| cell(segment, colours)).collect();
    let room = width.max(1) * most_rows;
    let hidden = cells.len().saturating_sub(room);
    for line in cells.iter().skip(hidden).collect::<Vec<_>>().chunks(width.max(1)) {
        let add = |row: Row, (look, letter): &&(Look, char)| row.and(*look, letter.to_string());
        rows.push(line.iter().fold(Row::default(), add));
    }
    if hidden > 0 {
        rows[0] = rows[0].clone().and(Look::Faint, format!("; the oldest {hidden} are not shown"));
    }
    rows
}

/// Returns the cell of a segment. Without colours it is a digit for the tenths referred to.
fn cell(segment: &Value, colours: bool) -> (Look, char) {
    if segment["sealed"] != true {
        return (Look::Warning, 'w');
    }
    let share = number(segment, "referenced_bytes") / number(segment, "bytes").max(1.0);
    let share = share.clamp(0.0, 1.0);
    if colours {
        return (Look::Cell, BLOCKS[(share * 8.0).round() as usize]);
    }
    let tenths = (share * 10.0).round() as u32;
    (Look::Plain, char::from_digit(tenths, 10).unwrap_or('#'))
}

/// What the cells of segments mean.
pub(crate) fn legend(colours: bool) -> Row {
    let text = match colours {
        true => "filled: tables refer to it; else garbage, or not flushed yet; w: being written",
        false => "0-9 and #: tenths that tables refer to; w: being written",
    };
    Row::of(Look::Faint, text)
}

/// What runs now.
pub(crate) fn jobs(course: &Course) -> Vec<Row> {
    let mut rows = vec![heading("RUNNING")];
    for job in course.now.jobs["jobs"].as_array().into_iter().flatten() {
        let text = |field: &str| job[field].as_str().unwrap_or_default().to_owned();
        let kind = text("kind").replace('_', " ").replace("value gc", "value GC");
        let keyspace = text("keyspace");
        let of = if keyspace.is_empty() { "" } else { " of " };
        let mut row = Row::default().plain(format!("{kind}{of}{keyspace}"));
        if let Some(level) = job["level"].as_u64() {
            row = row.plain(format!(" L{level}, {}", bytes(number(job, "bytes"))));
        }
        let reason = text("reason").replace('_', " ");
        if !reason.is_empty() {
            row = row.and(Look::Faint, format!(", {reason}"));
        }
        rows.push(row.and(Look::Faint, format!(", {:.1} s", number(job, "seconds"))));
    }
    if rows.len() == 1 {
        rows[0] = heading("RUNNING").and(Look::Faint, "  nothing");
    }
    rows
}

/// The last `most` events, the newest first.
pub(crate) fn events(course: &Course, most: usize) -> Vec<Row> {
    if most < 2 {
        return Vec::new();
    }
    let mut rows = vec![heading("LATELY").and(Look::Faint, "  UTC")];
    let told = course.now.events.as_array();
    for event in told.into_iter().flatten().rev().take(most - 1) {
        let seconds = number(event, "unix_seconds").max(0.0) as u64;
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        let name = event["event"].as_str().unwrap_or_default();
        let look = match name {
            "background_error" | "turned_read_only" | "low_space_begun" => Look::Bad,
            "stall_begun" | "stall_ended" | "slow_operation" => Look::Warning,
            _ => Look::Plain,
        };
        let time = format!("{hour:02}:{minute:02}:{second:02} ");
        let text = event["text"].as_str().unwrap_or_default();
        rows.push(Row::of(Look::Faint, time).and(look, text));
    }
    rows
}

/// The sum of what keeps the database open.
pub(crate) fn holders(course: &Course) -> Row {
    let mut row = heading("HELD BY");
    for (name, count) in course.now.jobs["holders"].as_object().into_iter().flatten() {
        let count = count.as_u64().unwrap_or_default();
        if count > 0 {
            row = row.plain(format!("  {} {name}", human_count(count)));
        }
    }
    row.and(
        Look::Faint,
        format!("  write amplification {:.2}", course.now.number("write_amplification")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_columns() {
        for value in [0.0, 1.0, 9_999.0, 10_000.0, 999_499.0, 999_999.0, 99.96e6, 1e9, 999e9] {
            assert!(short_count(value).chars().count() <= 6, "{value}");
            assert!(short_bytes(value).chars().count() <= 5, "{value}: {}", short_bytes(value));
            assert!(short_time(value).chars().count() <= 8 || value > 1e9, "{value}");
        }
        assert_eq!(short_count(1_234_567.0), "1.2M");
        assert_eq!(short_bytes(1536.0), "1.5K");
        assert_eq!(short_span(3_725.0), "1 h 02 min");
        let values: VecDeque<f64> = [0.0, 4.0, 8.0].into();
        assert_eq!(chart(&values).trim_start(), "▄█");
    }
}
