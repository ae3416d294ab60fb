//! The settings of one keyspace. The manifest keeps them as text, so that they persist over
//! reopenings and the inspector can show them.

use crate::base::compression::Codec;
use crate::base::error::{Error, Result};
use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

/// The name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// The policy for separating large values from the tree.
///
/// ```
/// use cleavedb::{KeyspaceOptions, Separation};
/// let index = KeyspaceOptions { separation: Separation::Off, ..KeyspaceOptions::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Separation {
    /// A large value is written once, into the log, and stays there (WiscKey).
    AtWrite,
    /// The log is only a write-ahead log, and the memtable holds the values. A flush writes the
    /// large ones to a segment of their own, in the order of keys (Titan). So a large value is
    /// written twice, one that is overwritten before the flush once, and scans read the values of
    /// each flush in order.
    AtFlush,
    /// Every value is inline; the log is only a write-ahead log.
    Off,
    /// The engine chooses between `AtWrite` and `AtFlush` by what it sees: at flush while flushes
    /// replace the log before the device gets it, or while scans find values strewn; otherwise at
    /// write, as are values of 32 KiB and more in any case. While writers wait for value GC, it is
    /// at write, too, if neither the device nor scans lose by it. A choice is made after a flush,
    /// from at least 16 MiB of values or a memtable of them, and an opening begins with `AtFlush`.
    /// The default.
    /// [`KeyspaceStats::separation`](crate::KeyspaceStats::separation) is the choice, and
    /// [`Event::SeparationChosen`](crate::Event::SeparationChosen) tells of another one.
    #[default]
    Auto,
}

impl Separation {
    /// Returns the name of the policy, as in settings and events.
    ///
    /// ```
    /// assert_eq!(cleavedb::Separation::AtFlush.name(), "at_flush");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Separation::AtWrite => "at_write",
            Separation::AtFlush => "at_flush",
            Separation::Off => "off",
            Separation::Auto => "auto",
        }
    }

    /// Returns the policy with this name, if there is one.
    ///
    /// ```
    /// use cleavedb::Separation;
    /// assert_eq!(Separation::from_name("auto"), Some(Separation::Auto));
    /// assert_eq!(Separation::from_name("sometimes"), None);
    /// ```
    pub fn from_name(name: &str) -> Option<Self> {
        use Separation::{AtFlush, AtWrite, Auto, Off};
        [AtWrite, AtFlush, Off, Auto].into_iter().find(|policy| policy.name() == name)
    }
}

/// The settings of a keyspace. Changing them on an existing keyspace is always safe: they only
/// control how new files are written, and every file records how it was written.
///
/// ```
/// use cleavedb::{KeyspaceOptions, Separation};
/// let inline = KeyspaceOptions { separation: Separation::Off, ..Default::default() };
/// inline.validate()?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct KeyspaceOptions {
    /// The policy for separating large values. Default: `Auto`, at flush, or at write where the log
    /// gets to the device anyway, or writers wait for value GC. `Off` suits keyspaces that are
    /// mostly scanned in short ranges. A changed policy holds for later writes and flushes. What is
    /// in files follows as compactions come to it (`convert_in_compactions`), or at once with
    /// [`Keyspace::convert`](crate::Keyspace::convert).
    pub separation: Separation,
    /// Values of at least this many bytes are separated. Default 1024. 0 separates every value;
    /// smaller thresholds save compaction work and cost scan speed.
    pub separation_threshold: usize,
    /// Whether compactions move stored values to where `separation` and `separation_threshold` say
    /// now. Default: true. A value that is inline and large moves to a segment with the first
    /// compaction that rewrites its key, so it is written once, as it would be inline. One in a
    /// segment that is small, or that nothing separates any more, moves into the tree with a
    /// compaction to the deepest level, once flushes, value GC or scans have put it in a sorted
    /// segment, and while its old record fits below the ceiling of space. A compaction moves in at
    /// most `segment_bytes`, and out as much as fits on the disk.
    pub convert_in_compactions: bool,
    /// The codec of separated values, each compressed alone. Default: none. lz4 is cheap; zstd
    /// needs the feature of that name.
    pub value_codec: Codec,
    /// Separated values of fewer bytes than this are not compressed. Default 512.
    pub value_compression_min_bytes: usize,
    /// The codec of table blocks. Default: lz4.
    pub block_codec: Codec,
    /// Target size of a table block before compression, in bytes. Default 4096. Larger blocks
    /// compress better and make point reads more expensive.
    pub block_bytes: usize,
    /// Bits of filter per key in the deepest level. Default 12, about half a percent of false
    /// positives; 0 writes no filter. Tables above it, which have few of the keys, get six more,
    /// and keep them if they move down as they are.
    pub filter_bits_per_key: u32,
    /// Target size of a table that a compaction writes, in bytes. Default 4 MiB. A flush writes one
    /// table, which moves down as it is where there is nothing to merge.
    pub table_bytes: u64,
    /// A memtable is flushed once it has this many bytes, which include those of values that are
    /// not separated at write. Default 64 MiB. Larger memtables save compaction work and cost
    /// memory. Where the process may use less than 512 MiB of that, they are smaller whatever is
    /// set (`docs/tuning.md`).
    pub memtable_bytes: u64,
    /// The number of tables in L0 that starts a compaction, where those of one ingest count as one.
    /// Default 4.
    pub level0_trigger: usize,
    /// Target size of L1, in bytes. Default 256 MiB. It counts as at most what `level0_trigger`
    /// memtables bring to the tree, but eight tables at least: a larger L1 would be rewritten for
    /// little at a time, and separated values are not rewritten with it. Each deeper level is at
    /// most ten times larger, and all but the deepest are at most a tenth of the next, if they have
    /// more than this.
    pub level_base_bytes: u64,
    /// Values that are put without an expiry of their own expire after this time, in whole
    /// milliseconds. Default `None`: they never do. What was put before a change keeps its time.
    pub default_ttl: Option<Duration>,
    /// The name of the operator that merges operands with values, for
    /// [`Keyspace::merge`](crate::Keyspace::merge): one of
    /// [`merge_operators`](crate::merge_operators), or of a [`MergeOperator`](crate::MergeOperator)
    /// of your own. Default `None`: nothing is merged. It is fixed when the keyspace is created. In
    /// a keyspace that has one nothing expires.
    pub merge_operator: Option<String>,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        KeyspaceOptions {
            separation: Separation::Auto,
            separation_threshold: 1024,
            convert_in_compactions: true,
            value_codec: Codec::None,
            value_compression_min_bytes: 512,
            block_codec: Codec::Lz4,
            block_bytes: 4096,
            filter_bits_per_key: 12,
            table_bytes: 4 << 20,
            memtable_bytes: 64 << 20,
            level0_trigger: 4,
            level_base_bytes: 256 << 20,
            default_ttl: None,
            merge_operator: None,
        }
    }
}

impl KeyspaceOptions {
    /// Returns the target size of L1 if no value is separated: about what L0 brings at once, and no
    /// more than was asked for.
    pub(crate) fn max_level1_bytes(&self) -> u64 {
        self.memtable_bytes.saturating_mul(self.level0_trigger as u64).min(self.level_base_bytes)
    }
}

/// The greatest time to live of a keyspace's values: a thousand years.
const MAX_TTL: Duration = Duration::from_secs(1000 * 365 * 24 * 3600);

/// Returns an error unless a default time to live can be stored.
fn check_ttl(ttl: Duration) -> Result<()> {
    let whole = ttl.subsec_nanos().is_multiple_of(1_000_000);
    if whole && !ttl.is_zero() && ttl <= MAX_TTL {
        return Ok(());
    }
    let what = format!("default_ttl is {ttl:?}, it must be whole milliseconds, up to 1000 years");
    Err(Error::invalid_option(what).advise("use None for values that never expire"))
}

/// Returns an error unless `name` can be stored as the name of a merge operator.
fn check_operator_name(name: &str) -> Result<()> {
    let fits = !name.is_empty() && name.len() <= 255 && name.trim() == name;
    if fits && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(Error::invalid_option(format!("merge_operator is {name:?}, which can't be a name"))
        .advise("use 1 to 255 bytes without control characters and outer spaces"))
}

/// A numeric setting and its allowed range.
struct SettingRange {
    name: &'static str,
    low: u64,
    high: u64,
    get: fn(&KeyspaceOptions) -> u64,
    set: fn(&mut KeyspaceOptions, u64),
}

const RANGES: [SettingRange; 6] = [
    SettingRange {
        name: "block_bytes",
        low: 256,
        high: 1 << 20,
        get: |it| it.block_bytes as u64,
        set: |it, value| it.block_bytes = value as usize,
    },
    SettingRange {
        name: "filter_bits_per_key",
        low: 0,
        high: 64,
        get: |it| it.filter_bits_per_key.into(),
        set: |it, value| it.filter_bits_per_key = value as u32,
    },
    SettingRange {
        name: "table_bytes",
        low: 4 << 10,
        high: 4 << 30,
        get: |it| it.table_bytes,
        set: |it, value| it.table_bytes = value,
    },
    SettingRange {
        name: "memtable_bytes",
        low: 4 << 10,
        high: 16 << 30,
        get: |it| it.memtable_bytes,
        set: |it, value| it.memtable_bytes = value,
    },
    SettingRange {
        name: "level0_trigger",
        low: 1,
        high: 1000,
        get: |it| it.level0_trigger as u64,
        set: |it, value| it.level0_trigger = value as usize,
    },
    SettingRange {
        name: "level_base_bytes",
        low: 4 << 10,
        high: 1 << 40,
        get: |it| it.level_base_bytes,
        set: |it, value| it.level_base_bytes = value,
    },
];

/// Returns an error unless the setting `name` is from `low` to `high`, both inclusive.
pub fn within(name: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Error::invalid_option(format!("{name} is {value}, it must be from {low} to {high}")))
}

fn codec_name(codec: Codec) -> &'static str {
    match codec {
        Codec::None => "none",
        Codec::Lz4 => "lz4",
        Codec::Zstd => "zstd",
    }
}

fn codec(name: &str) -> Result<Codec> {
    [Codec::None, Codec::Lz4, Codec::Zstd]
        .into_iter()
        .find(|codec| codec_name(*codec) == name)
        .ok_or_else(|| {
            Error::unsupported(format!("codec {name:?} is unknown; try none, lz4 or zstd"))
        })
}

/// Values of so many bytes are separated at write where the engine chooses: each is a read of its
/// own wherever it lies, and in memtables they leave little room for others. At flush, values of
/// 32 KiB are loaded and overwritten at 0.83 of the rate, while those of 16 KiB lose nothing, and
/// cost the device a quarter less (`bench/record/2026-11-27-auto.md`).
pub const LARGE_BYTES: usize = 32 << 10;

impl KeyspaceOptions {
    /// Returns true if a value of `bytes` bytes stays in the log, and the memtable takes a pointer.
    /// `chosen` is what `Auto` stands for.
    pub(crate) fn separates_at_write(&self, bytes: usize, chosen: Separation) -> bool {
        let is_at_write = match self.separation {
            Separation::AtWrite => true,
            Separation::Auto => chosen == Separation::AtWrite || bytes >= LARGE_BYTES,
            Separation::AtFlush | Separation::Off => false,
        };
        is_at_write && bytes >= self.separation_threshold
    }

    /// Returns true if a flush writes an inline value of `bytes` bytes to a segment.
    pub(crate) fn separates_at_flush(&self, bytes: usize) -> bool {
        let is_at_flush = matches!(self.separation, Separation::AtFlush | Separation::Auto);
        is_at_flush && bytes >= self.separation_threshold
    }

    /// Returns the bytes from which values belong in segments, whenever they get there; `None` if
    /// none do.
    pub(crate) fn least_separated(&self) -> Option<usize> {
        (self.separation != Separation::Off).then_some(self.separation_threshold)
    }

    /// Returns true if a value of `bytes` bytes belongs in a segment, whenever it gets there.
    pub(crate) fn separates(&self, bytes: usize) -> bool {
        self.least_separated().is_some_and(|least| bytes >= least)
    }

    /// Returns true if it is chosen for a value of `bytes` bytes when it is separated.
    pub(crate) fn chooses_for(&self, bytes: usize) -> bool {
        let is_medium = (self.separation_threshold..LARGE_BYTES).contains(&bytes);
        self.separation == Separation::Auto && is_medium
    }

    /// Checks every field; the error names the field and its range.
    ///
    /// ```
    /// let options = cleavedb::KeyspaceOptions { block_bytes: 1, ..Default::default() };
    /// assert!(options.validate().unwrap_err().message().starts_with("block_bytes is 1"));
    /// ```
    pub fn validate(&self) -> Result<()> {
        for range in RANGES {
            within(range.name, (range.get)(self), range.low, range.high)?;
        }
        self.default_ttl.map_or(Ok(()), check_ttl)?;
        if let Some(name) = &self.merge_operator {
            check_operator_name(name)?;
            if self.default_ttl.is_some() {
                let what = "default_ttl and merge_operator exclude each other";
                return Err(Error::invalid_option(what)
                    .advise("what a value that expires is merged to would depend on when it is"));
            }
        }
        for codec in [self.value_codec, self.block_codec] {
            if !codec.is_available() {
                let name = codec_name(codec);
                return Err(Error::unsupported(format!("codec {name} is not part of this build"))
                    .advise("build with the feature of that name"));
            }
        }
        Ok(())
    }

    /// Parses the settings from the manifest; returns them and notes about changed ones. A number
    /// out of its range, which another build allowed, is replaced by the nearest allowed one:
    /// settings only control how new files are written, so they never prevent opening a database. A
    /// codec that this build lacks is kept; new files are written without it.
    pub(crate) fn from_manifest(text: &str) -> Result<(Self, Vec<String>)> {
        let mut options = Self::from_text(text)?;
        let mut notes = Vec::new();
        for range in RANGES {
            let value = (range.get)(&options);
            let allowed = value.clamp(range.low, range.high);
            if allowed != value {
                notes.push(format!("{} is taken for {allowed}: it was {value}", range.name));
                (range.set)(&mut options, allowed);
            }
        }
        if let Some(ttl) = options.default_ttl.filter(|ttl| *ttl > MAX_TTL) {
            let (ttl, allowed) = (ttl.as_millis(), MAX_TTL.as_millis());
            notes.push(format!("default_ttl_ms is taken for {allowed}: it was {ttl}"));
            options.default_ttl = Some(MAX_TTL);
        }
        Ok((options, notes))
    }

    /// Returns the settings as lines of `name = value`.
    ///
    /// ```
    /// use cleavedb::KeyspaceOptions;
    /// let text = KeyspaceOptions::default().to_text();
    /// assert!(text.contains("separation_threshold = 1024\n"));
    /// assert_eq!(KeyspaceOptions::from_text(&text)?, KeyspaceOptions::default());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let rows: [(&str, String); 13] = [
            ("separation", self.separation.name().into()),
            ("separation_threshold", self.separation_threshold.to_string()),
            ("convert_in_compactions", self.convert_in_compactions.to_string()),
            ("value_codec", codec_name(self.value_codec).into()),
            ("value_compression_min_bytes", self.value_compression_min_bytes.to_string()),
            ("block_codec", codec_name(self.block_codec).into()),
            ("block_bytes", self.block_bytes.to_string()),
            ("filter_bits_per_key", self.filter_bits_per_key.to_string()),
            ("table_bytes", self.table_bytes.to_string()),
            ("memtable_bytes", self.memtable_bytes.to_string()),
            ("level0_trigger", self.level0_trigger.to_string()),
            ("level_base_bytes", self.level_base_bytes.to_string()),
            ("default_ttl_ms", self.default_ttl.map_or(0, |ttl| ttl.as_millis()).to_string()),
        ];
        for (name, value) in rows {
            let _ = writeln!(text, "{name} = {value}");
        }
        // Builds that know no merge operators refuse the setting, and so the keyspace.
        if let Some(name) = &self.merge_operator {
            let _ = writeln!(text, "merge_operator = {name}");
        }
        text
    }

    /// Parses the output of [`KeyspaceOptions::to_text`]. Absent settings have their defaults; an
    /// unknown setting is an error.
    ///
    /// ```
    /// use cleavedb::{KeyspaceOptions, Separation};
    /// let options = KeyspaceOptions::from_text("separation = off\nblock_bytes = 8192\n")?;
    /// assert_eq!((options.separation, options.block_bytes), (Separation::Off, 8192));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn from_text(text: &str) -> Result<Self> {
        let mut options = KeyspaceOptions::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line
                .split_once('=')
                .ok_or_else(|| Error::invalid_option(format!("setting {line:?} has no value")))?;
            options.set(name.trim(), value.trim())?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "separation" => {
                let known = Separation::from_name(value);
                self.separation = known.ok_or_else(|| wrong(name, value))?;
            }
            "separation_threshold" => self.separation_threshold = parsed(name, value)?,
            "convert_in_compactions" => self.convert_in_compactions = parsed(name, value)?,
            "value_codec" => self.value_codec = codec(value)?,
            "value_compression_min_bytes" => {
                self.value_compression_min_bytes = parsed(name, value)?
            }
            "block_codec" => self.block_codec = codec(value)?,
            "block_bytes" => self.block_bytes = parsed(name, value)?,
            "filter_bits_per_key" => self.filter_bits_per_key = parsed(name, value)?,
            "table_bytes" => self.table_bytes = parsed(name, value)?,
            "memtable_bytes" => self.memtable_bytes = parsed(name, value)?,
            "level0_trigger" => self.level0_trigger = parsed(name, value)?,
            "level_base_bytes" => self.level_base_bytes = parsed(name, value)?,
            "default_ttl_ms" => {
                let ttl = Duration::from_millis(parsed(name, value)?);
                self.default_ttl = (!ttl.is_zero()).then_some(ttl);
            }
            "merge_operator" => {
                check_operator_name(value)?;
                self.merge_operator = Some(value.to_owned());
            }
            _ => {
                return Err(Error::unsupported(format!(
                    "setting {name:?} is unknown to this build"
                )));
            }
        }
        Ok(())
    }
}

/// Parses the value of the setting `name`.
pub fn parsed<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| wrong(name, value))
}

fn wrong(name: &str, value: &str) -> Error {
    Error::invalid_option(format!("setting {name} can't be {value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip() {
        use Separation::{AtFlush, AtWrite, Auto, Off};
        for separation in [AtWrite, AtFlush, Off, Auto] {
            let options = KeyspaceOptions {
                separation,
                separation_threshold: 7,
                convert_in_compactions: false,
                value_codec: Codec::Lz4,
                table_bytes: 1 << 20,
                default_ttl: Some(Duration::from_millis(1500)),
                merge_operator: Some("cleavedb.Append:7".to_owned()),
                ..Default::default()
            };
            assert_eq!(KeyspaceOptions::from_text(&options.to_text()).unwrap(), options);
        }
        assert_eq!(KeyspaceOptions::from_text("").unwrap(), KeyspaceOptions::default());
    }

    #[test]
    fn wrong_settings_are_named() {
        for (text, part) in [
            ("tables = 3", "tables"),
            ("table_bytes = many", "table_bytes"),
            ("block_codec = snappy", "snappy"),
            ("separation", "separation"),
            ("merge_operator =", "merge_operator"),
        ] {
            let error = KeyspaceOptions::from_text(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let options = KeyspaceOptions { block_bytes: 1, ..Default::default() };
        assert!(options.validate().unwrap_err().to_string().contains("block_bytes"));
        let merge_operator = Some(" a".to_owned());
        let options = KeyspaceOptions { merge_operator, ..Default::default() };
        assert!(options.validate().unwrap_err().to_string().contains("merge_operator"));
        let (merge_operator, default_ttl) = (Some("a".to_owned()), Some(MAX_TTL));
        let options = KeyspaceOptions { merge_operator, default_ttl, ..Default::default() };
        assert!(options.validate().unwrap_err().to_string().contains("exclude"));
        for ttl in [Duration::ZERO, Duration::from_nanos(1), MAX_TTL + Duration::from_millis(1)] {
            let options = KeyspaceOptions { default_ttl: Some(ttl), ..Default::default() };
            assert!(options.validate().unwrap_err().to_string().contains("default_ttl"));
        }
    }

    #[test]
    fn stored_settings_out_of_range_are_clamped_and_noted() {
        let odd = KeyspaceOptions {
            block_bytes: 0,
            filter_bits_per_key: u32::MAX,
            table_bytes: u64::MAX,
            memtable_bytes: 0,
            level0_trigger: 0,
            level_base_bytes: u64::MAX,
            default_ttl: Some(2 * MAX_TTL),
            ..Default::default()
        };
        let (options, notes) = KeyspaceOptions::from_manifest(&odd.to_text()).unwrap();
        options.validate().unwrap();
        assert_eq!((options.block_bytes, options.table_bytes), (256, 4 << 30));
        assert_eq!((options.memtable_bytes, options.level0_trigger), (4 << 10, 1));
        assert_eq!((notes.len(), options.default_ttl), (RANGES.len() + 1, Some(MAX_TTL)));
        assert_eq!(notes[0], "block_bytes is taken for 256: it was 0");
        let usual = KeyspaceOptions::default();
        let (options, notes) = KeyspaceOptions::from_manifest(&usual.to_text()).unwrap();
        assert_eq!((options, notes.len()), (usual, 0));
    }

    #[test]
    fn thresholds_zero_and_never() {
        use Separation::{AtFlush, AtWrite, Auto, Off};
        // For each policy: whether a value is separated at write, and at flush.
        for (separation, chosen, at_write, at_flush) in [
            (AtWrite, AtFlush, true, false),
            (AtFlush, AtWrite, false, true),
            (Off, AtWrite, false, false),
            (Auto, AtWrite, true, true),
            (Auto, AtFlush, false, true),
        ] {
            let all = KeyspaceOptions { separation, separation_threshold: 0, ..Default::default() };
            let some = KeyspaceOptions { separation_threshold: 100, ..all.clone() };
            for (options, bytes, is_large) in
                [(&all, 0, true), (&all, 1, true), (&some, 99, false), (&some, 100, true)]
            {
                assert_eq!(options.separates_at_write(bytes, chosen), at_write && is_large);
                assert_eq!(options.separates_at_flush(bytes), at_flush && is_large);
                assert_eq!(options.separates(bytes), (at_write || at_flush) && is_large);
            }
            let (huge, is_auto) = (LARGE_BYTES, separation == Auto);
            assert_eq!(some.separates_at_write(huge, chosen), at_write || is_auto);
            let chooses = [99, 100, huge - 1, huge].map(|bytes| some.chooses_for(bytes));
            assert_eq!(chooses, [false, is_auto, is_auto, false]);
        }
    }
}
