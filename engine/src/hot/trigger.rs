//! The score from which on a table is compacted early.

use crate::base::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// How much of a table must be stale before it is compacted early, without waiting until its level
/// is full (Lin, Chen 2022, section 2.2).
///
/// ```
/// use cleavedb::{Options, StaleTrigger};
/// let options = Options { early_compaction: StaleTrigger::Entries(1000), ..Options::default() };
/// assert_eq!("share:0.5".parse::<StaleTrigger>()?, StaleTrigger::Share(0.5));
/// # let _ = options;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum StaleTrigger {
    /// Nothing is compacted early.
    Off,
    /// This share of the table's entries, above 0 and at most 1.
    Share(f64),
    /// This number of entries, at least 1: `old_thres` of the paper, which uses 1000 in tables of
    /// about 2000.
    Entries(u64),
}

impl StaleTrigger {
    /// Returns true if `stale` of `entries` entries are enough.
    pub fn is_passed(self, stale: u64, entries: u64) -> bool {
        match self {
            StaleTrigger::Off => false,
            StaleTrigger::Share(share) => stale > 0 && stale as f64 >= share * entries as f64,
            StaleTrigger::Entries(least) => stale >= least,
        }
    }

    /// Returns an error if the trigger is out of its range.
    pub fn validate(self) -> Result<()> {
        match self {
            StaleTrigger::Share(share) if !(share > 0.0 && share <= 1.0) => {
                Err(Error::invalid_option(format!(
                    "early_compaction is {self}, a share must be above 0 and at most 1"
                )))
            }
            StaleTrigger::Entries(0) => Err(Error::invalid_option(
                "early_compaction is entries:0, it must be at least entries:1",
            )),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for StaleTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StaleTrigger::Off => f.write_str("off"),
            StaleTrigger::Share(share) => write!(f, "share:{share}"),
            StaleTrigger::Entries(entries) => write!(f, "entries:{entries}"),
        }
    }
}

impl FromStr for StaleTrigger {
    type Err = Error;

    /// Parses `off`, `share:0.5` or `entries:1000`.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = match text.split_once(':') {
            None if text == "off" => Some(StaleTrigger::Off),
            Some(("share", share)) => share.parse().ok().map(StaleTrigger::Share),
            Some(("entries", entries)) => entries.parse().ok().map(StaleTrigger::Entries),
            _ => None,
        };
        let trigger = parsed.ok_or_else(|| {
            Error::invalid_option(format!("early compaction can't be {text:?}"))
                .advise("use off, share:0.5, or entries:1000")
        })?;
        trigger.validate().map(|()| trigger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_read_what_they_print_and_refuse_nonsense() {
        for text in ["off", "share:0.25", "share:1", "entries:1000"] {
            assert_eq!(text.parse::<StaleTrigger>().unwrap().to_string(), text);
        }
        for text in ["", "on", "share:", "share:0", "share:1.5", "share:NaN", "entries:0", "0.5"] {
            assert!(text.parse::<StaleTrigger>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_trigger_is_passed_by_a_share_or_a_number() {
        use StaleTrigger::{Entries, Off, Share};
        let rows = [
            (Off, 100, 100, false),
            (Share(0.5), 49, 100, false),
            (Share(0.5), 50, 100, true),
            (Share(0.5), 0, 0, false),
            (Entries(50), 49, 100, false),
            (Entries(50), 50, 1_000_000, true),
        ];
        for (trigger, stale, entries, expected) in rows {
            assert_eq!(trigger.is_passed(stale, entries), expected, "{trigger} {stale}");
        }
    }
}
