//! Prints statistics as JSON.

use super::{KeyspaceStats, LevelStats, Stats};
use crate::base::error::Error;
use crate::base::json::{joined, quoted};
use crate::stats::LatencyStats;
use std::fmt::Write;
use std::time::Duration;

impl Stats {
    /// Returns the statistics as one JSON object.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (name, value) in self.numbers() {
            let _ = write!(json, "{}:{value},", quoted(name));
        }
        let _ = write!(json, "\"write_amplification\":{:.4},", self.write_amplification());
        let _ = write!(json, "\"parallel_reads\":{},", quoted(self.parallel_reads));
        let text = |text: Option<String>| text.map_or("null".into(), |text| quoted(&text));
        let error = |error: &Option<Error>| text(error.as_ref().map(Error::to_string));
        let _ = write!(json, "\"background_error\":{},", error(&self.background_error));
        let _ = write!(json, "\"low_on_space\":{},", text(self.low_on_space.clone()));
        let oldest = self.oldest_snapshot.as_secs_f64();
        let _ = write!(json, "\"oldest_snapshot_seconds\":{oldest:.3},");
        let _ = write!(json, "\"read_only_because\":{},", error(&self.read_only_because));
        let stalls = self.stalls.iter().map(|stall| {
            let seconds = stall.time.as_secs_f64();
            format!(
                "{}:{{\"count\":{},\"seconds\":{seconds:.6}}}",
                quoted(stall.reason.name()),
                stall.count
            )
        });
        let _ = write!(json, "\"stalls\":{{{}}},", joined(stalls));
        let latencies = self.latencies.all().map(latency_json);
        let _ = write!(json, "\"latencies\":{{{}}},", joined(latencies));
        let keyspaces = self.keyspaces.iter().map(keyspace_json);
        let _ = write!(json, "\"keyspaces\":[{}],", joined(keyspaces));
        let segments = self.segments.iter().map(|segment| {
            format!(
                "{{\"id\":{},\"bytes\":{},\"sealed\":{},\"referenced_records\":{},\
                 \"referenced_bytes\":{}}}",
                segment.id,
                segment.bytes,
                segment.sealed,
                segment.referenced_records,
                segment.referenced_bytes
            )
        });
        let _ = write!(json, "\"segments\":[{}]}}", joined(segments));
        json
    }
}

/// Formats a latency in microseconds.
fn latency_json((name, latency): (&'static str, &LatencyStats)) -> String {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    format!(
        "{}:{{\"count\":{},\"mean\":{:.3},\"p50\":{:.3},\"p99\":{:.3},\"p999\":{:.3},\
         \"max\":{:.3}}}",
        quoted(name),
        latency.count(),
        micros(latency.mean()),
        micros(latency.quantile(0.5)),
        micros(latency.quantile(0.99)),
        micros(latency.quantile(0.999)),
        micros(latency.max())
    )
}

fn keyspace_json(keyspace: &KeyspaceStats) -> String {
    let levels = keyspace.levels.iter().map(|level| {
        let LevelStats { tables, bytes, score } = level;
        format!("{{\"tables\":{tables},\"bytes\":{bytes},\"score\":{score:.3}}}")
    });
    format!(
        "{{\"name\":{},\"table_entries\":{},\"tombstones\":{},\"range_tombstones\":{},\
         \"memtable_bytes\":{},\"immutable_memtables\":{},\"separation\":\"{}\",\
         \"separation_reason\":{},\"separation_written_bytes\":{},\
         \"separation_spared_bytes\":{},\"separation_scanned_bytes\":{},\
         \"separation_waste_bytes\":{},\"separation_put_bytes\":{},\"separation_delayed_bytes\":{},\
         \"separation_absorbed_bytes\":{},\"levels\":[{}]}}",
        quoted(&keyspace.name),
        keyspace.table_entries,
        keyspace.tombstones,
        keyspace.range_tombstones,
        keyspace.memtable_bytes,
        keyspace.immutable_memtables,
        keyspace.separation.name(),
        keyspace.separation_reason.map_or("null".into(), quoted),
        keyspace.separation_written_bytes,
        keyspace.separation_spared_bytes,
        keyspace.separation_scanned_bytes,
        keyspace.separation_waste_bytes,
        keyspace.separation_put_bytes,
        keyspace.separation_delayed_bytes,
        keyspace.separation_absorbed_bytes,
        joined(levels)
    )
}
