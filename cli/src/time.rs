//! Times to live as text and back.

use cleavedb::{Error, Expiry, Result, Ttl};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Units with their milliseconds. One that ends with another stands before it.
const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Parses a time to live: `500ms`, `10s`, `5m`, `2h`, `7d` or `never`.
pub(crate) fn expiry(text: &str) -> Result<Expiry> {
    let wrong = || {
        Error::invalid_argument(format!("the time {text:?} is unknown"))
            .advise("use a number with a unit: 500ms, 10s, 5m, 2h, 7d; or never")
    };
    if text == "never" {
        return Ok(Expiry::Never);
    }
    let unit = UNITS.iter().find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)));
    let (digits, ms) = unit.ok_or_else(wrong)?;
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    count.checked_mul(*ms).map(|ms| Expiry::After(Duration::from_millis(ms))).ok_or_else(wrong)
}

/// Returns what is left of a time to live, as [`expiry`] parses it.
pub(crate) fn ttl(ttl: Ttl) -> String {
    match ttl {
        Ttl::Never => "never".into(),
        Ttl::Left(left) => format!("{}ms", left.as_millis()),
    }
}

/// Returns a moment to the minute, in the world's time: `2026-11-25 04:40 UTC`.
pub(crate) fn utc_minute(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (minutes, mut days) = (seconds / 60 % 1440, seconds / 86_400);
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, day) = (minutes / 60, minutes % 60, days + 1);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let cases = [("0s", 0), ("500ms", 500), ("10s", 10_000), ("5m", 300_000)];
        for (text, ms) in cases.into_iter().chain([("2h", 7_200_000), ("7d", 604_800_000)]) {
            let time = Duration::from_millis(ms);
            assert_eq!(expiry(text).unwrap(), Expiry::After(time), "{text}");
            assert_eq!(expiry(&ttl(Ttl::Left(time))).unwrap(), Expiry::After(time));
        }
        assert_eq!(expiry(&ttl(Ttl::Never)).unwrap(), Expiry::Never);
        for text in ["", "5", "s", "-5s", "1.5h", "5 s", "18446744073709551615d"] {
            assert!(expiry(text).unwrap_err().to_string().contains("500ms"), "{text}");
        }
    }

    #[test]
    fn moments_have_dates() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ];
        for (seconds, text) in cases {
            assert_eq!(utc_minute(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
