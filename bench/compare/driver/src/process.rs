//! What the kernel knows about this process, and waiting until an engine has come to rest.
//!
//! Engines differ in how they tell that no background work is left, and some do not. So all are
//! asked in the same way: rest is when the process has neither used the processor nor written for
//! half a second.

use std::fs;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(50);
const QUIET: Duration = Duration::from_millis(500);
/// Clock ticks and bytes between two looks, half a second apart, that count as nothing: this loop
/// itself takes some.
const QUIET_TICKS: u64 = 2;
const QUIET_BYTES: u64 = 64 << 10;

/// The number behind a name in a file of `/proc/self`.
fn counter(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The most memory that was resident, in bytes.
pub fn peak_rss_bytes() -> u64 {
    counter("status", "VmHWM:") * 1024
}

/// Bytes that this process had written to storage, less those that were truncated before.
pub fn written_bytes() -> u64 {
    let cancelled = counter("io", "cancelled_write_bytes:");
    counter("io", "write_bytes:").saturating_sub(cancelled)
}

/// Time on processors of all threads, in clock ticks of ten milliseconds.
pub fn processor_ticks() -> u64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when another engine is at rest")]
fn pause() {
    std::thread::sleep(LOOK);
}

/// Waits until nothing is done in the background, for at most `limit`, and for at least `stay`, in
/// which an engine may find out that nobody uses it. Returns how long that took, and whether it
/// came to rest.
pub fn wait_for_rest(limit: Duration, stay: Duration) -> (Duration, bool) {
    let begun = Instant::now();
    let mut quiet_since = (begun, processor_ticks(), counter("io", "write_bytes:"));
    while begun.elapsed() < limit {
        pause();
        let (ticks, bytes) = (processor_ticks(), counter("io", "write_bytes:"));
        if ticks > quiet_since.1 + QUIET_TICKS || bytes > quiet_since.2 + QUIET_BYTES {
            quiet_since = (Instant::now(), ticks, bytes);
        } else if quiet_since.0.elapsed() >= QUIET && begun.elapsed() >= stay {
            return (quiet_since.0 - begun, true);
        }
    }
    (limit, false)
}
