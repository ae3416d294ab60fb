//! The settings of value GC.

use crate::base::error::{Error, Result};
use crate::env::memory;
use crate::gc::discardable::CollectDiscardable;
use crate::version::settings::{parsed, within};
use std::fmt::Write;

/// Settings for how much space the database may take, and what value GC may spend on that.
///
/// ```
/// use cleavedb::{GcOptions, Options};
/// // Less space for more device writes.
/// let gc = GcOptions { max_space_amplification: 1.3, ..GcOptions::default() };
/// gc.validate()?;
/// let options = Options { gc, ..Options::default() };
/// # let _ = options;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GcOptions {
    /// Whether to free the space of dead separated values in the background. Default true. Without
    /// it only segments in which nothing is live come back by themselves.
    pub automatic: bool,
    /// The ceiling: all files of the database together take at most this many times the bytes of
    /// the keys and values that reads, snapshots and cursors see, counted in blocks of the file
    /// system; files that were replaced while somebody reads them may come on top. Default 2.0,
    /// from 1.05 to 1000. Near it, and only there, GC takes precedence and writers are slowed down
    /// by the rule `space_ceiling`. A lower ceiling costs device writes: at most about 1 / (1 - 1 /
    /// ceiling) bytes for each byte that is overwritten at random.
    pub max_space_amplification: f64,
    /// The settled bound: the ratio to which space comes down while nobody writes, and towards
    /// which GC works with the processor time that users leave. Default 1.2, from 1.05; at most the
    /// ceiling counts.
    pub settled_space_amplification: f64,
    /// Garbage that is allowed while users write, whatever the ceiling says, in bytes. It keeps a
    /// small database, in which a ratio means little, from being collected all the time. Default
    /// 256 MiB, at most 1 TiB. While nobody writes, the settled bound alone counts, and where scans
    /// wait for room to put values in order, as much less is allowed.
    pub space_allowance_bytes: u64,
    /// The least share of garbage of a *discardable* segment: one that is collected even if the
    /// bounds hold, by moving what is live in it. Default 0.5, from 0.05 to 1.
    pub discardable_ratio: f64,
    /// The same for segments whose garbage is punched: the least share of a segment's bytes that
    /// holes would free. It is lower, because holes move nothing. Default 0.2, from 0.05 to 1. A
    /// segment that would get holes for less is discardable by the other ratio.
    pub punch_ratio: f64,
    /// When discardable segments are collected: only while nobody writes, as by default, or always.
    pub collect_discardable: CollectDiscardable,
    /// The most memory for lists of live records while segments are collected, in bytes. Default
    /// 128 MiB, or less where the process may use less than 512 MiB. One liveness scan lists
    /// records in half of it, while the lists of the previous one are still in use: 1.25 bytes for
    /// each record in a sorted segment if all have one length, 3 to 7 if not, or in the log.
    /// Records that are being moved take an eighth as much once more, but room for one read at
    /// least: a MiB, or the largest of them. With less memory, more liveness scans are needed for
    /// the same work, each of which reads all keys, and moved values are in key order by smaller
    /// parts.
    pub memory_bytes: u64,
    /// Whether to free dead bytes by punching holes into files, where the file system can do that
    /// and it is cheaper than moving what is live: for values from about 16 KiB on, and where those
    /// of many neighbouring keys died together. Default true. Without it files stay whole, and
    /// everything is moved, as on Btrfs, where holes give back next to nothing.
    pub punch: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        GcOptions {
            automatic: true,
            max_space_amplification: 2.0,
            settled_space_amplification: 1.2,
            space_allowance_bytes: 256 << 20,
            discardable_ratio: 0.5,
            punch_ratio: 0.2,
            collect_discardable: CollectDiscardable::Idle,
            memory_bytes: memory::shrunk(128 << 20, memory::limit()),
            punch: true,
        }
    }
}

impl GcOptions {
    /// Checks every field; the error names the field and its range.
    ///
    /// ```
    /// let gc = cleavedb::GcOptions { max_space_amplification: 1.0, ..Default::default() };
    /// assert!(gc.validate().unwrap_err().message().contains("from 1.05 to 1000"));
    /// ```
    pub fn validate(&self) -> Result<()> {
        let (bounds, shares) = ((1.05, 1000.0), (0.05, 1.0));
        for (name, value, (least, most)) in [
            ("max_space_amplification", self.max_space_amplification, bounds),
            ("settled_space_amplification", self.settled_space_amplification, bounds),
            ("discardable_ratio", self.discardable_ratio, shares),
            ("punch_ratio", self.punch_ratio, shares),
        ] {
            if !(least..=most).contains(&value) {
                let what = format!("{name} is {value}, it must be from {least} to {most}");
                let error = Error::invalid_option(what);
                let advice = "set `automatic` to false if space does not matter";
                return Err(if least > 1.0 { error.advise(advice) } else { error });
            }
        }
        within("space_allowance_bytes", self.space_allowance_bytes, 0, 1 << 40)?;
        within("memory_bytes", self.memory_bytes, 64 << 10, 1 << 40)
    }

    /// Returns the settings as lines of `name = value`.
    ///
    /// ```
    /// let gc = cleavedb::GcOptions { punch: false, ..Default::default() };
    /// assert!(gc.to_text().contains("gc.punch = false\n"));
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let rows: [(&str, String); 9] = [
            ("gc.automatic", self.automatic.to_string()),
            ("gc.max_space_amplification", self.max_space_amplification.to_string()),
            ("gc.settled_space_amplification", self.settled_space_amplification.to_string()),
            ("gc.space_allowance_bytes", self.space_allowance_bytes.to_string()),
            ("gc.discardable_ratio", self.discardable_ratio.to_string()),
            ("gc.punch_ratio", self.punch_ratio.to_string()),
            ("gc.collect_discardable", self.collect_discardable.to_string()),
            ("gc.memory_bytes", self.memory_bytes.to_string()),
            ("gc.punch", self.punch.to_string()),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "{name} = {value}");
        }
        text
    }

    /// Reads the lines of [`GcOptions::to_text`] from among other lines, as in the file `OPTIONS`
    /// beside a database, which records the options of its last opening. A setting that is missing
    /// has its default. Fails on an invalid value.
    ///
    /// ```
    /// let gc = cleavedb::GcOptions::from_text("durability = os\ngc.punch = false\n")?;
    /// assert!(!gc.punch && gc.automatic);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn from_text(text: &str) -> Result<Self> {
        let mut options = GcOptions::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            options.set(name.trim(), value.trim())?;
        }
        options.validate()?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "gc.automatic" => self.automatic = parsed(name, value)?,
            "gc.max_space_amplification" => self.max_space_amplification = parsed(name, value)?,
            "gc.settled_space_amplification" => {
                self.settled_space_amplification = parsed(name, value)?;
            }
            "gc.space_allowance_bytes" => self.space_allowance_bytes = parsed(name, value)?,
            "gc.discardable_ratio" => self.discardable_ratio = parsed(name, value)?,
            "gc.punch_ratio" => self.punch_ratio = parsed(name, value)?,
            "gc.collect_discardable" => self.collect_discardable = parsed(name, value)?,
            "gc.memory_bytes" => self.memory_bytes = parsed(name, value)?,
            "gc.punch" => self.punch = parsed(name, value)?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_named() {
        let good = GcOptions::default();
        good.validate().unwrap();
        let wrong = |change: fn(&mut GcOptions), name: &str| {
            let mut options = good.clone();
            change(&mut options);
            let error = options.validate().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name} is ")), "{error}");
        };
        wrong(|options| options.max_space_amplification = 1.0, "max_space_amplification");
        wrong(|options| options.max_space_amplification = f64::NAN, "max_space_amplification");
        wrong(|options| options.max_space_amplification = f64::INFINITY, "max_space_amplification");
        wrong(|options| options.discardable_ratio = 0.0, "discardable_ratio");
        wrong(|options| options.discardable_ratio = 1.01, "discardable_ratio");
        wrong(|options| options.discardable_ratio = f64::NAN, "discardable_ratio");
        wrong(|options| options.punch_ratio = 0.04, "punch_ratio");
        wrong(|options| options.punch_ratio = 1.01, "punch_ratio");
        wrong(|options| options.punch_ratio = f64::NAN, "punch_ratio");
        wrong(|options| options.max_space_amplification = 1001.0, "max_space_amplification");
        wrong(|options| options.settled_space_amplification = 1.0, "settled_space_amplification");
        wrong(|options| options.space_allowance_bytes = u64::MAX, "space_allowance_bytes");
        wrong(|options| options.memory_bytes = 1000, "memory_bytes");
        wrong(|options| options.memory_bytes = u64::MAX, "memory_bytes");
    }

    #[test]
    fn settings_round_trip() {
        let options = GcOptions {
            automatic: false,
            max_space_amplification: 2.25,
            settled_space_amplification: 1.5,
            space_allowance_bytes: 1 << 20,
            discardable_ratio: 0.75,
            punch_ratio: 0.25,
            collect_discardable: CollectDiscardable::Always,
            memory_bytes: 1 << 20,
            punch: false,
        };
        let text = format!("# for people\ncache_bytes = 7\n{}\nno value\n", options.to_text());
        assert_eq!(GcOptions::from_text(&text).unwrap(), options);
        assert_eq!(GcOptions::from_text("").unwrap(), GcOptions::default());
        let wrong_lines = [
            "gc.punch = perhaps",
            "gc.memory_bytes = 1",
            "gc.discardable_ratio = NaN",
            "gc.punch_ratio = 2",
            "gc.collect_discardable = never",
        ];
        for wrong in wrong_lines {
            assert!(GcOptions::from_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_limits_are_within() {
        let low = GcOptions {
            max_space_amplification: 1.05,
            settled_space_amplification: 1.05,
            space_allowance_bytes: 0,
            discardable_ratio: 0.05,
            punch_ratio: 0.05,
            memory_bytes: 64 << 10,
            ..GcOptions::default()
        };
        low.validate().unwrap();
        GcOptions { discardable_ratio: 1.0, punch_ratio: 1.0, ..low }.validate().unwrap();
    }
}
