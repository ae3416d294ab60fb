//! What value GC did.

use super::Counter;
use crate::base::size::sized;
use std::fmt;
use std::time::Duration;

/// Counts of value GC for one open database.
#[derive(Debug, Default)]
pub struct GcCounters {
    /// Rounds that took at least one segment.
    pub rounds: Counter,
    /// Walks over the tree to find what is live.
    pub liveness_scans: Counter,
    /// Entries that those passed.
    pub liveness_scan_entries: Counter,
    /// Nanoseconds that those took.
    pub liveness_scan_nanos: Counter,
    /// Segments freed by moving what was live in them.
    pub segments_relocated: Counter,
    /// Segments in which holes were punched.
    pub segments_punched: Counter,
    /// Calls that punched a hole.
    pub punches: Counter,
    /// Nanoseconds that such a call takes, as measured once before the first.
    pub punch_call_nanos: Counter,
    /// Bytes read from segments to move them.
    pub bytes_read: Counter,
    /// Bytes of live records moved: written to new segments.
    pub bytes_moved: Counter,
    /// Bytes of relocations written.
    pub relocation_bytes: Counter,
    /// Bytes of blocks that came back, by both ways.
    pub bytes_freed: Counter,
    /// Nanoseconds that rounds took, liveness scans excluded.
    pub nanos: Counter,
}

impl GcCounters {
    /// The counts as they are now.
    pub fn read(&self) -> GcStats {
        GcStats {
            rounds: self.rounds.get(),
            liveness_scans: self.liveness_scans.get(),
            liveness_scan_entries: self.liveness_scan_entries.get(),
            liveness_scan_time: Duration::from_nanos(self.liveness_scan_nanos.get()),
            segments_relocated: self.segments_relocated.get(),
            segments_punched: self.segments_punched.get(),
            punches: self.punches.get(),
            punch_call: Duration::from_nanos(self.punch_call_nanos.get()),
            bytes_read: self.bytes_read.get(),
            bytes_moved: self.bytes_moved.get(),
            relocation_bytes: self.relocation_bytes.get(),
            bytes_freed: self.bytes_freed.get(),
            time: Duration::from_nanos(self.nanos.get()),
        }
    }
}

/// What value GC did since the database was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GcStats {
    /// Rounds that took at least one segment.
    pub rounds: u64,
    /// Walks over the tree to find what is live.
    pub liveness_scans: u64,
    /// Entries that those passed.
    pub liveness_scan_entries: u64,
    /// How long those took.
    pub liveness_scan_time: Duration,
    /// Segments freed by moving what was live in them.
    pub segments_relocated: u64,
    /// Segments in which holes were punched.
    pub segments_punched: u64,
    /// Calls that punched a hole.
    pub punches: u64,
    /// How long such a call takes, as measured once before the first; zero if it was not, or the
    /// file system can't.
    pub punch_call: Duration,
    /// Bytes read from segments to move them.
    pub bytes_read: u64,
    /// Bytes of live records moved: written to new segments.
    pub bytes_moved: u64,
    /// Bytes of relocations written.
    pub relocation_bytes: u64,
    /// Bytes of blocks that came back, by both ways.
    pub bytes_freed: u64,
    /// How long rounds took, liveness scans excluded.
    pub time: Duration,
}

impl GcStats {
    /// Everything it wrote.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_moved + self.relocation_bytes
    }

    /// Every count by its name.
    pub fn numbers(&self) -> [(&'static str, u64); 13] {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        [
            ("gc_rounds", self.rounds),
            ("gc_liveness_scans", self.liveness_scans),
            ("gc_liveness_scan_entries", self.liveness_scan_entries),
            ("gc_liveness_scan_micros", micros(self.liveness_scan_time)),
            ("gc_segments_relocated", self.segments_relocated),
            ("gc_segments_punched", self.segments_punched),
            ("gc_punches", self.punches),
            ("gc_punch_call_micros", micros(self.punch_call)),
            ("gc_bytes_read", self.bytes_read),
            ("gc_bytes_moved", self.bytes_moved),
            ("gc_relocation_bytes", self.relocation_bytes),
            ("gc_bytes_freed", self.bytes_freed),
            ("gc_micros", micros(self.time)),
        ]
    }
}

impl fmt::Display for GcStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds ({:.1} s), {} freed by moving {}: {} segments relocated, {} punched \
             ({} calls); {} liveness scans ({:.1} s)",
            self.rounds,
            self.time.as_secs_f64(),
            sized(self.bytes_freed),
            sized(self.bytes_moved),
            self.segments_relocated,
            self.segments_punched,
            self.punches,
            self.liveness_scans,
            self.liveness_scan_time.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_numbers() {
        let counters = GcCounters::default();
        counters.liveness_scan_entries.add(1000);
        counters.liveness_scan_nanos.add_time(Duration::from_millis(20));
        counters.rounds.add(1);
        counters.bytes_moved.add(5 << 20);
        counters.relocation_bytes.add(100);
        counters.nanos.add_time(Duration::from_millis(1500));
        let stats = counters.read();
        assert_eq!(stats.bytes_written(), (5 << 20) + 100);
        let number = |name| stats.numbers().into_iter().find(|(n, _)| *n == name).unwrap().1;
        assert_eq!(number("gc_liveness_scan_micros"), 20_000);
        assert_eq!(number("gc_liveness_scan_entries"), 1000);
        let text = stats.to_string();
        assert!(text.starts_with("1 rounds (1.5 s), 0 B freed by moving 5.0 MiB:"), "{text}");
    }
}
