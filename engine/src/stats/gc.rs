//! Counters and statistics of value GC.

use super::Counter;
use crate::base::size::{counted, sized};
use std::fmt;
use std::time::Duration;

/// The counters of value GC of one open database.
#[derive(Debug, Default)]
pub struct GcCounters {
    /// The number of rounds that relocated or punched at least one segment.
    pub rounds: Counter,
    /// The number of liveness scans: walks over the tree that find what is live.
    pub liveness_scans: Counter,
    /// The number of entries that liveness scans visited.
    pub liveness_scan_entries: Counter,
    /// The nanoseconds that liveness scans took.
    pub liveness_scan_nanos: Counter,
    /// The number of segments freed by moving their live records.
    pub segments_relocated: Counter,
    /// The number of segments in which holes were punched.
    pub segments_punched: Counter,
    /// The number of calls that punched a hole.
    pub punches: Counter,
    /// The nanoseconds that one call to punch a hole takes, measured once before the first one.
    pub punch_call_nanos: Counter,
    /// The bytes read from segments in order to move their live records.
    pub bytes_read: Counter,
    /// The bytes of live records that were written to new segments.
    pub bytes_moved: Counter,
    /// The bytes of relocations written.
    pub relocation_bytes: Counter,
    /// The bytes of disk blocks freed by moving and by punching.
    pub bytes_freed: Counter,
    /// The nanoseconds that rounds took, without liveness scans.
    pub nanos: Counter,
}

impl GcCounters {
    /// Returns the current counts.
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

/// The statistics of value GC since the database was opened.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("gc-stats"))?;
/// let gc = db.stats().gc;
/// println!("{} bytes freed by writing {}", gc.bytes_freed, gc.bytes_written());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GcStats {
    /// The number of rounds that relocated or punched at least one segment.
    pub rounds: u64,
    /// The number of liveness scans: walks over the tree that find what is live.
    pub liveness_scans: u64,
    /// The number of entries that liveness scans visited.
    pub liveness_scan_entries: u64,
    /// The time that liveness scans took.
    pub liveness_scan_time: Duration,
    /// The number of segments freed by moving their live records.
    pub segments_relocated: u64,
    /// The number of segments in which holes were punched.
    pub segments_punched: u64,
    /// The number of calls that punched a hole.
    pub punches: u64,
    /// The time that one call to punch a hole takes, measured once before the first one. It is zero
    /// if it was not measured or the file system cannot punch holes.
    pub punch_call: Duration,
    /// The bytes read from segments in order to move their live records.
    pub bytes_read: u64,
    /// The bytes of live records that were written to new segments.
    pub bytes_moved: u64,
    /// The bytes of relocations written.
    pub relocation_bytes: u64,
    /// The bytes of disk blocks freed by moving and by punching.
    pub bytes_freed: u64,
    /// The time that rounds took, without liveness scans.
    pub time: Duration,
}

impl GcStats {
    /// Returns the bytes that value GC wrote: moved records and relocations.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_moved + self.relocation_bytes
    }

    /// Returns every count with its name.
    pub fn numbers(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.described().map(|(name, value, _)| (name, value))
    }

    /// Returns every count with its name, and what it means.
    pub(crate) fn described(
        &self,
    ) -> impl Iterator<Item = (&'static str, u64, &'static str)> + use<> {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let numbers = [
            (
                "gc_rounds",
                self.rounds,
                "Rounds of value GC that relocated or punched at least one segment.",
            ),
            (
                "gc_liveness_scans",
                self.liveness_scans,
                "Liveness scans: walks over the tree that find what is live.",
            ),
            (
                "gc_liveness_scan_entries",
                self.liveness_scan_entries,
                "Entries that liveness scans visited.",
            ),
            (
                "gc_liveness_scan_micros",
                micros(self.liveness_scan_time),
                "Time that liveness scans took.",
            ),
            (
                "gc_segments_relocated",
                self.segments_relocated,
                "Segments freed by moving their live records.",
            ),
            ("gc_segments_punched", self.segments_punched, "Segments in which holes were punched."),
            ("gc_punches", self.punches, "Calls that punched a hole."),
            (
                "gc_punch_call_micros",
                micros(self.punch_call),
                "Time that one call to punch a hole takes; 0 if it was not measured.",
            ),
            (
                "gc_bytes_read",
                self.bytes_read,
                "Bytes read from segments in order to move their live records.",
            ),
            (
                "gc_bytes_moved",
                self.bytes_moved,
                "Bytes of live records that were written to new segments.",
            ),
            ("gc_relocation_bytes", self.relocation_bytes, "Bytes of relocations written."),
            (
                "gc_bytes_freed",
                self.bytes_freed,
                "Bytes of disk blocks freed by moving and by punching.",
            ),
            (
                "gc_micros",
                micros(self.time),
                "Time that rounds of value GC took, without liveness scans.",
            ),
        ];
        numbers.into_iter()
    }
}

impl fmt::Display for GcStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({:.1} s), {} freed by moving {}: {} relocated, {} punched ({}); {} ({:.1} s)",
            counted(self.rounds, "round"),
            self.time.as_secs_f64(),
            sized(self.bytes_freed),
            sized(self.bytes_moved),
            counted(self.segments_relocated, "segment"),
            self.segments_punched,
            counted(self.punches, "call"),
            counted(self.liveness_scans, "liveness scan"),
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
        assert!(text.starts_with("1 round (1.5 s), 0 B freed by moving 5.0 MiB:"), "{text}");
    }
}
