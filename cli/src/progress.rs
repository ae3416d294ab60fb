//! A progress line on a terminal's standard error, with share, rate and time left. Nothing is
//! printed if standard error is no terminal.

use crate::text::{human_count, per_second};
use cleavedb::PassProgress;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval between updates: often enough to look alive, rarely enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(200);
const BAR: usize = 24;

/// The progress of a job. Dropping it wipes the line.
pub(crate) struct Progress {
    what: &'static str,
    started: Instant,
    shown: Option<Instant>,
    enabled: bool,
}

impl Progress {
    /// Starts the clock. `what` names what is counted, such as "lines". Prints nothing unless
    /// `wanted`.
    pub(crate) fn new(what: &'static str, wanted: bool) -> Self {
        let enabled = wanted && io::stderr().is_terminal();
        Progress { what, started: Instant::now(), shown: None, enabled }
    }

    /// Shows that `count` are done, and which share (0 to 1) of the job that is, if known.
    pub(crate) fn show(&mut self, count: u64, share: Option<f64>) {
        let now = Instant::now();
        let due = self.shown.is_none_or(|shown| now.duration_since(shown) >= INTERVAL);
        if !self.enabled || !due {
            return;
        }
        self.shown = Some(now);
        let line = line(self.what, count, share, now.duration_since(self.started).as_secs_f64());
        // A failed write is ignored: the terminal may be gone, but the job matters more.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    /// Returns the seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Returns a listener that shows how far a pass over files is; the line is wiped when it is
/// dropped.
pub(crate) fn of_pass() -> impl Fn(PassProgress) + Send + Sync + 'static {
    let shown = Mutex::new(Progress::new("bytes", true));
    move |pass| {
        let share = pass.done_bytes as f64 / pass.all_bytes.max(1) as f64;
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.show(pass.done_bytes, Some(share));
    }
}

fn line(what: &str, count: u64, share: Option<f64>, seconds: f64) -> String {
    let rate = per_second(count, seconds) as u64;
    let counted = format!("{} {what}, {}/s", human_count(count), human_count(rate));
    let Some(share) = share.map(|share| share.clamp(0.0, 1.0)) else { return counted };
    let full = (share * BAR as f64) as usize;
    let bar = format!("[{}{}]", "#".repeat(full), ".".repeat(BAR - full));
    let left = if share > 0.0 { seconds / share - seconds } else { return counted };
    format!("{bar} {:3.0} %  {counted}, {} left", share * 100.0, clock(left))
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_share_rate_and_time_left() {
        let half = line("lines", 5000, Some(0.5), 10.0);
        assert_eq!(half, "[############............]  50 %  5 000 lines, 500/s, 0:10 left");
        assert_eq!(line("lines", 5000, None, 10.0), "5 000 lines, 500/s");
        assert_eq!(line("lines", 0, Some(0.0), 0.0), "0 lines, 0/s");
    }
}
