//! `cleave top`: shows what the process that has a database open does, again and again.

use crate::live::{self, LiveStore};
use crate::outcome::{Outcome, Status, Stop};
use crate::output::Output;
use crate::picture::terminal::may_colour;
use crate::top::row::Row;
use crate::top::sample::{Course, Sample};
use crate::top::screen::{self, ScreenView};
use crate::top::sections::KeyspaceOrder;
use crate::top::tty::{self, Tty};
use clap::Args;
use cleavedb::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Show what the process that has a database open does now: rates, latencies, stalls, levels, jobs
///
/// Keys change the interval and the order of keyspaces; they are explained on the last line. If the
/// process ends, the last numbers stay, and it is waited for another.
#[derive(Args)]
pub(crate) struct TopArgs {
    /// The database's directory
    dir: PathBuf,

    /// Seconds between two looks, from 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,

    /// Print one screen as text, with rates since the opening
    #[arg(long)]
    once: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "give seconds from 0.1 to 3600".into())
}

/// The intervals that the keys + and - lead to, in seconds.
const INTERVALS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];
/// The longest wait for a key before it is looked whether the terminal has another size.
const RESIZE_CHECK: Duration = Duration::from_millis(200);

/// The time after which a process that sends nothing is shown as one that does not answer. Keys
/// wait as long.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is looked at, and how.
struct TopSession {
    dir: PathBuf,
    name: String,
    live: Option<LiveStore>,
    course: Course,
    /// What is to be said if the last look found nothing new.
    notice: Option<String>,
    interval: f64,
    is_paused: bool,
    order: KeyspaceOrder,
    colours: bool,
}

pub(crate) fn run(args: &TopArgs) -> Outcome {
    let live = match LiveStore::found_within(PATIENCE, &args.dir) {
        Some(live) => live,
        // This has the error that says why there is none.
        None => live::required(&args.dir)?,
    };
    let mut session = TopSession {
        dir: args.dir.clone(),
        name: args.dir.display().to_string(),
        course: Course::begin(Sample::take(&live)?),
        live: Some(live),
        notice: None,
        interval: args.interval,
        is_paused: false,
        order: KeyspaceOrder::Name,
        colours: may_colour(),
    };
    if args.once {
        return session.print();
    }
    let failed = |error| Stop::Error(Error::io("use the terminal", Path::new("/dev/tty"), error));
    let Some(tty) = Tty::take().map_err(failed)? else { return session.print() };
    session.watch(&tty).map_err(failed)?;
    Ok(Status::Done)
}

impl TopSession {
    /// Prints one screen as text.
    fn print(&mut self) -> Outcome {
        self.colours &= Output::is_terminal();
        let (width, height) = tty::size().unwrap_or((80, 50));
        let mut out = Output::new();
        out.bytes(screen::text(&self.rows((width, height), false), self.colours).as_bytes())?;
        out.finish()?;
        Ok(Status::Done)
    }

    fn rows(&self, size: (usize, usize), has_keys: bool) -> Vec<Row> {
        let state = match (self.is_paused, has_keys) {
            (true, _) => "paused".to_owned(),
            (false, true) => format!("every {} s", self.interval),
            (false, false) => "one look".to_owned(),
        };
        let view = ScreenView {
            name: &self.name,
            order: self.order,
            state: &state,
            notice: self.notice.as_deref(),
            has_keys,
            colours: self.colours,
        };
        screen::rows(&self.course, &view, size)
    }

    /// Redraws the screen until the user quits.
    fn watch(&mut self, tty: &Tty) -> std::io::Result<()> {
        let mut looked = Instant::now();
        loop {
            let size = tty.size();
            tty.write(&screen::drawn(&self.rows(size, true), self.colours))?;
            loop {
                let due = looked + Duration::from_secs_f64(self.interval);
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() && !self.is_paused {
                    self.look();
                    // From its end on: where a look takes longer than the interval, as the process
                    // is stopped, keys are read between two of them all the same.
                    looked = Instant::now();
                    break;
                }
                let wait = if self.is_paused { RESIZE_CHECK } else { left.min(RESIZE_CHECK) };
                let keys = tty.keys(wait)?;
                if keys.iter().any(|key| matches!(key, b'q' | b'Q' | 3 | 4)) {
                    return Ok(());
                }
                keys.iter().for_each(|key| self.obey(*key));
                if !keys.is_empty() || tty.size() != size {
                    break;
                }
            }
        }
    }

    fn obey(&mut self, key: u8) {
        let faster = INTERVALS.iter().rev().find(|interval| **interval < self.interval);
        let slower = INTERVALS.iter().find(|interval| **interval > self.interval);
        match key {
            b' ' | b'p' => self.is_paused = !self.is_paused,
            b'+' | b'=' => self.interval = *slower.unwrap_or(&self.interval),
            b'-' => self.interval = *faster.unwrap_or(&self.interval),
            key => self.order = KeyspaceOrder::of_key(key).unwrap_or(self.order),
        }
    }

    /// Takes a sample; if the process has ended, looks for another.
    fn look(&mut self) {
        if self.live.is_none() {
            self.live = LiveStore::found_within(PATIENCE, &self.dir);
        }
        let sample = self.live.as_ref().map(Sample::take);
        if let Some(Ok(sample)) = sample {
            self.course.go_on(sample);
            self.notice = None;
            return;
        }
        // A process that is busy or stopped is asked again; one that has ended is not there.
        self.live = LiveStore::found_within(PATIENCE, &self.dir);
        self.notice = Some(match (&self.live, sample) {
            (Some(_), Some(Err(error))) => format!("old numbers: {}", error.message()),
            _ => "the process has ended; waiting for another".to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for bad in ["0", "0.05", "nan", "inf", "3601", "x", "-1"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
