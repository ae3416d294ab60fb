//! The settings of value GC.

use crate::base::error::{Error, Result};
use crate::version::settings::{parsed, within};
use std::fmt::Write;

/// Settings for how much space the database may take, and what value GC may spend on that.
///
/// ```
/// use cleavedb::{GcOptions, Options};
/// // Fewer device writes for more space; segments are left alone until half of them is garbage.
/// let gc = GcOptions { max_space_amplification: 2.0, ..GcOptions::default() };
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
    /// The space target: all files of the database together take at most this many times the bytes
    /// of its live keys and values, counted in blocks of the file system. Default 1.3, at least
    /// 1.05. GC holds it by freeing space and, from the target on, by slowing writers down. Writers
    /// that are faster than GC can push space some hundredths beyond, and so can the output of
    /// compaction and GC before its input is removed. Smaller targets cost device writes: about 1 /
    /// (1 - 1 / target) bytes for each byte that is overwritten at random.
    pub max_space_amplification: f64,
    /// The least share of garbage of segments that are collected while the database is idle, even
    /// if the target holds. Default 0.5, from 0.05 to 1.
    pub discardable_ratio: f64,
    /// Memory for lists of live records while segments are collected, in bytes. Default 32 MiB. One
    /// liveness scan lists records in half of it, 16 bytes each, while the lists of the previous
    /// one are still in use. With less memory, more rounds are needed for the same work.
    pub memory_bytes: u64,
    /// Whether to free dead bytes by punching holes into files, where the file system can do that
    /// and it is cheaper than moving what is live: for values from about 16 KiB on. Default true.
    /// Without it files stay whole, and everything is moved.
    pub punch: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        GcOptions {
            automatic: true,
            max_space_amplification: 1.3,
            discardable_ratio: 0.5,
            memory_bytes: 32 << 20,
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
        let target = self.max_space_amplification;
        if !(1.05..=1000.0).contains(&target) {
            return Err(Error::invalid_option(format!(
                "max_space_amplification is {target}, it must be from 1.05 to 1000"
            ))
            .advise("set `automatic` to false if space does not matter"));
        }
        let ratio = self.discardable_ratio;
        if !(0.05..=1.0).contains(&ratio) {
            return Err(Error::invalid_option(format!(
                "discardable_ratio is {ratio}, it must be from 0.05 to 1"
            )));
        }
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
        let rows: [(&str, String); 5] = [
            ("gc.automatic", self.automatic.to_string()),
            ("gc.max_space_amplification", self.max_space_amplification.to_string()),
            ("gc.discardable_ratio", self.discardable_ratio.to_string()),
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
            "gc.discardable_ratio" => self.discardable_ratio = parsed(name, value)?,
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
        wrong(|options| options.max_space_amplification = 1001.0, "max_space_amplification");
        wrong(|options| options.memory_bytes = 1000, "memory_bytes");
        wrong(|options| options.memory_bytes = u64::MAX, "memory_bytes");
    }

    #[test]
    fn settings_round_trip() {
        let options = GcOptions {
            automatic: false,
            max_space_amplification: 2.25,
            discardable_ratio: 0.75,
            memory_bytes: 1 << 20,
            punch: false,
        };
        let text = format!("# for people\ncache_bytes = 7\n{}\nno value\n", options.to_text());
        assert_eq!(GcOptions::from_text(&text).unwrap(), options);
        assert_eq!(GcOptions::from_text("").unwrap(), GcOptions::default());
        for wrong in ["gc.punch = perhaps", "gc.memory_bytes = 1", "gc.discardable_ratio = NaN"] {
            assert!(GcOptions::from_text(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_limits_are_within() {
        let low = GcOptions {
            max_space_amplification: 1.05,
            discardable_ratio: 0.05,
            memory_bytes: 64 << 10,
            ..GcOptions::default()
        };
        low.validate().unwrap();
        GcOptions { discardable_ratio: 1.0, ..low }.validate().unwrap();
    }
}
