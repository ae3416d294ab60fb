//! Prints statistics for monitoring systems, in the text format OpenMetrics 1.0, which Prometheus
//! and others read. Names follow its conventions: counters end with `_total`, times are in seconds.

use super::{KeyspaceStats, Stats};
use crate::stats::LatencyStats;
use std::fmt::{Display, Write};
use std::time::Duration;

/// The numbers that tell a state. All others only grow.
const GAUGES: [&str; 27] = [
    "background_limit_bytes_per_second",
    "cache_bytes",
    "cache_capacity_bytes",
    "disk_reserve_bytes",
    "gc_punch_call_micros",
    "index_and_filter_bytes",
    "index_and_filter_capacity_bytes",
    "memtable_capacity_bytes",
    "pinned_tables",
    "pinned_tree_bytes",
    "pinned_tree_capacity_bytes",
    "pinned_tree_missing_bytes",
    "recovery_orphans_removed",
    "recovery_replayed_bytes",
    "recovery_replayed_records",
    "recovery_torn_bytes",
    "relocation_bytes",
    "relocations",
    "replay_bytes",
    "scan_cost_bytes",
    "scan_cost_ranges",
    "snapshots",
    "unpinned_tables",
    "unreadable_unpinned_tables",
    "update_table_bytes",
    "update_table_capacity_bytes",
    "update_table_keys",
];

/// What a metric means: its kind in the format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    Summary,
}

/// The text under way.
struct MetricsText(String);

impl MetricsText {
    /// Begins a metric; its samples follow.
    fn begin(&mut self, name: &str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Summary => "summary",
        };
        let _ = writeln!(self.0, "# TYPE cleavedb_{name} {kind}");
        let _ = writeln!(self.0, "# HELP cleavedb_{name} {}", escaped(help.trim()));
    }

    /// Writes a sample of the metric. Labels have a name and a value each.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "cleavedb_{name}{labels} {value}");
    }

    /// Writes a metric that has one sample.
    fn number(&mut self, name: &str, kind: MetricKind, help: &str, value: impl Display) {
        self.begin(name, kind, help);
        match kind {
            MetricKind::Counter => self.sample(&format!("{name}_total"), &[], value),
            _ => self.sample(name, &[], value),
        }
    }

    fn latency(&mut self, operation: &str, latency: &LatencyStats) {
        for quantile in ["0.5", "0.99", "0.999"] {
            let value = latency.quantile(quantile.parse().expect("a number"));
            let labels = [("operation", operation), ("quantile", quantile)];
            self.sample("latency_seconds", &labels, value.as_secs_f64());
        }
        let labels = [("operation", operation)];
        self.sample("latency_seconds_count", &labels, latency.count());
        self.sample("latency_seconds_sum", &labels, latency.total().as_secs_f64());
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Stats {
    /// Returns the statistics as a text in the format OpenMetrics 1.0, for Prometheus and others
    /// that collect metrics over HTTP. Its content type is [`Stats::OPENMETRICS`]. Counters begin
    /// at 0 with each opening, which such systems take for a restart.
    ///
    /// `docs/operations.md` lists the most important ones, and `docs/grafana.json` is a dashboard
    /// that shows them.
    ///
    /// ```
    /// use cleavedb::Stats;
    /// use std::io::{Read, Write};
    /// use std::net::{TcpListener, TcpStream};
    ///
    /// # let dir = cleavedb::doc_dir("openmetrics");
    /// let db = cleavedb::open(&dir)?;
    /// db.default_keyspace().put("a", "1")?;
    /// # let io = |error| cleavedb::Error::io("serve metrics", &dir, error);
    /// let listener = TcpListener::bind("127.0.0.1:0").map_err(io)?;
    /// let address = listener.local_addr().map_err(io)?;
    /// let served = db.clone();
    /// std::thread::spawn(move || {
    ///     for mut stream in listener.incoming().flatten() {
    ///         let _ = stream.read(&mut [0; 4096]);
    ///         let (kind, text) = (Stats::OPENMETRICS, served.stats().to_openmetrics());
    ///         let head = format!("HTTP/1.0 200 OK\r\nContent-Type: {kind}\r\n\r\n");
    ///         let _ = stream.write_all((head + &text).as_bytes());
    ///     }
    /// });
    /// let mut stream = TcpStream::connect(address).map_err(io)?;
    /// stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").map_err(io)?;
    /// let mut answer = String::new();
    /// stream.read_to_string(&mut answer).map_err(io)?;
    /// assert!(answer.contains("cleavedb_entries_written_total 1\n"));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn to_openmetrics(&self) -> String {
        let mut out = MetricsText(String::new());
        for (name, value, help) in self.described() {
            let is_state = GAUGES.contains(&name);
            let kind = if is_state { MetricKind::Gauge } else { MetricKind::Counter };
            match name.strip_suffix("_micros") {
                Some(name) => {
                    let seconds = Duration::from_micros(value).as_secs_f64();
                    out.number(&format!("{name}_seconds"), kind, help, seconds);
                }
                None => out.number(name, kind, help, value),
            }
        }
        self.put_state(&mut out);
        self.put_stalls(&mut out);
        let help = "How long operations took: reads, writes and steps of scans, of which one in 16 \
                    is measured, and background jobs.";
        out.begin("latency_seconds", MetricKind::Summary, help);
        self.latencies.all().for_each(|(name, latency)| out.latency(name, latency));
        self.put_keyspaces(&mut out);
        out.0 + "# EOF\n"
    }

    /// The content type of [`Stats::to_openmetrics`].
    pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Writes what is wrong, as 0 or 1, and what takes space.
    fn put_state(&self, out: &mut MetricsText) {
        let flags = [
            ("read_only", "1 if an error made the database read-only.", &self.read_only_because),
            (
                "background_error",
                "1 while background work can't go on, or value GC can't free something.",
                &self.background_error,
            ),
        ];
        for (name, help, error) in flags {
            out.number(name, MetricKind::Gauge, help, u8::from(error.is_some()));
        }
        let help = "1 while puts are refused because the disk is nearly full.";
        out.number("low_on_space", MetricKind::Gauge, help, u8::from(self.low_on_space.is_some()));
        let age = self.oldest_snapshot.as_secs_f64();
        let help = "Age of the oldest live snapshot; 0 if there is none.";
        out.number("oldest_snapshot_seconds", MetricKind::Gauge, help, age);
        let help = "Segments of the value log.";
        out.number("segments", MetricKind::Gauge, help, self.segments.len());
        let help = "Bytes of all sealed segments.";
        out.number("segment_bytes", MetricKind::Gauge, help, self.segment_bytes());
        let help = "Bytes of records in segments that tables refer to.";
        let referenced = self.referenced_bytes();
        out.number("segment_referenced_bytes", MetricKind::Gauge, help, referenced);
    }

    fn put_stalls(&self, out: &mut MetricsText) {
        out.begin("write_stalls", MetricKind::Counter, "Writes that were held up, by reason.");
        for stall in &self.stalls {
            out.sample("write_stalls_total", &[("reason", stall.reason.name())], stall.count);
        }
        let help = "Time for which writes were held up, by reason.";
        out.begin("write_stall_seconds", MetricKind::Counter, help);
        for stall in &self.stalls {
            let (labels, time) = ([("reason", stall.reason.name())], stall.time.as_secs_f64());
            out.sample("write_stall_seconds_total", &labels, time);
        }
    }

    fn put_keyspaces(&self, out: &mut MetricsText) {
        type Number = fn(&KeyspaceStats) -> u64;
        let numbers: [(&str, &str, Number); 5] = [
            ("keyspace_entries", "Entries in tables, old versions included.", |it| {
                it.table_entries
            }),
            ("keyspace_tombstones", "Tombstones in tables.", |it| it.tombstones),
            ("keyspace_range_tombstones", "Range tombstones over tables.", |it| {
                it.range_tombstones
            }),
            ("keyspace_memtable_bytes", "Bytes of memory that memtables take.", |it| {
                it.memtable_bytes
            }),
            ("keyspace_immutable_memtables", "Memtables that wait for their flush.", |it| {
                it.immutable_memtables
            }),
        ];
        for (name, help, number) in numbers {
            out.begin(name, MetricKind::Gauge, help);
            for keyspace in &self.keyspaces {
                out.sample(name, &[("keyspace", &keyspace.name)], number(keyspace));
            }
        }
        let levels = self.keyspaces.iter().flat_map(|keyspace| {
            let named = keyspace.levels.iter().enumerate();
            named.map(|(number, level)| (&keyspace.name, number.to_string(), level))
        });
        out.begin("level_tables", MetricKind::Gauge, "Tables of a level.");
        for (keyspace, number, level) in levels.clone() {
            let labels = [("keyspace", keyspace.as_str()), ("level", &number)];
            out.sample("level_tables", &labels, level.tables);
        }
        out.begin("level_bytes", MetricKind::Gauge, "Bytes of the tables of a level.");
        for (keyspace, number, level) in levels {
            let labels = [("keyspace", keyspace.as_str()), ("level", &number)];
            out.sample("level_bytes", &labels, level.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc_dir;
    use std::collections::BTreeMap;

    /// Reads the text as the format's specification says: each metric has its type and its help
    /// first, then its samples, whose names have the ends that the type asks for.
    fn parsed(text: &str) -> BTreeMap<String, f64> {
        let (body, end) = text.split_at(text.len() - "# EOF\n".len());
        assert_eq!(end, "# EOF\n");
        let (mut family, mut kind) = (String::new(), String::new());
        let (mut families, mut samples) = (Vec::new(), BTreeMap::new());
        for line in body.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, of) = typed.split_once(' ').expect(line);
                assert!(!families.contains(&name.to_owned()), "{line}");
                (family, kind) = (name.to_owned(), of.to_owned());
                families.push(family.clone());
                continue;
            }
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect(line);
                assert!(name == family && help.len() > 5 && help.ends_with('.'), "{line}");
                continue;
            }
            let (sample, value) = line.rsplit_once(' ').expect(line);
            let name = sample.split_once('{').map_or(sample, |(name, _)| name);
            let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
            assert!(name.starts_with("cleavedb_") && name.chars().all(is_name), "{line}");
            let end = name.strip_prefix(&family).expect(line);
            let is_quantile = sample.contains(",quantile=\"");
            match kind.as_str() {
                "counter" => assert_eq!(end, "_total", "{line}"),
                "gauge" => assert_eq!(end, "", "{line}"),
                _ => assert!(matches!(end, "_count" | "_sum") != (end.is_empty() && is_quantile)),
            }
            let known = samples.insert(sample.to_owned(), value.parse().expect(line));
            assert!(known.is_none(), "twice: {line}");
        }
        samples
    }

    fn metrics(dir: &str) -> BTreeMap<String, f64> {
        let db = crate::open(doc_dir(dir)).unwrap();
        let odd = db.create_keyspace("a \"b\" \\ c").unwrap();
        odd.put("k", "v").unwrap();
        db.default_keyspace().put("k", [1; 5000]).unwrap();
        db.flush().unwrap();
        // A flush is counted when its job is over, which is after its table is there.
        db.wait_idle().unwrap();
        db.default_keyspace().get("k").unwrap();
        parsed(&db.stats().to_openmetrics())
    }

    #[test]
    fn metrics_are_in_the_format_and_tell_the_numbers() {
        let samples = metrics("metrics");
        assert_eq!(samples["cleavedb_entries_written_total"], 2.0);
        assert_eq!(samples["cleavedb_flushes_total"], 2.0);
        assert_eq!(samples["cleavedb_read_only"], 0.0);
        assert_eq!(samples["cleavedb_scan_cost_bytes"], 0.0, "it falls again, so it is a gauge");
        assert_eq!(samples["cleavedb_level_tables{keyspace=\"default\",level=\"0\"}"], 1.0);
        assert_eq!(samples["cleavedb_keyspace_entries{keyspace=\"a \\\"b\\\" \\\\ c\"}"], 1.0);
        assert_eq!(samples["cleavedb_write_stalls_total{reason=\"space_ceiling\"}"], 0.0);
        assert!(samples["cleavedb_segment_referenced_bytes"] > 5000.0);
        assert!(samples.contains_key("cleavedb_gc_liveness_scan_seconds_total"));
    }

    #[test]
    fn what_tells_a_state_is_among_the_numbers() {
        let numbers: Vec<_> = Stats::default().numbers().map(|(name, _)| name).collect();
        let unknown = GAUGES.iter().find(|name| !numbers.contains(name));
        assert_eq!(unknown, None);
    }

    /// Guards against a dashboard that asks for what does not exist.
    #[test]
    fn the_dashboard_shows_metrics_that_exist() {
        let samples = metrics("metrics-shown");
        let names: Vec<_> = samples.keys().map(|it| it.split('{').next().unwrap()).collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/grafana.json");
        let dashboard = std::fs::read_to_string(path).unwrap();
        let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
        let asked: Vec<_> = dashboard
            .match_indices("cleavedb_")
            .map(|(at, _)| dashboard[at..].split(|it| !is_name(it)).next().unwrap())
            .collect();
        assert!(asked.len() > 20, "{asked:?}");
        for name in asked {
            assert!(names.contains(&name), "{name}");
        }
    }
}
