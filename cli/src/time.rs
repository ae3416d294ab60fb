//! Times to live as text and back, and dates.

use cleavedb::{Error, Expiry, Result, Ttl};
use std::time::Duration;

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

/// Formats a time since 1970 in UTC, such as `2026-11-25 05:35:00Z`.
pub(crate) fn date(since_1970: Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The calendar repeats itself every 400 years of 146 097 days. Years begin in March here, so
    // that the day that leap years have more is the last one.
    const TO_MARCH_OF_0: u64 = 719_468;
    let day = days + TO_MARCH_OF_0;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * era + year + next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{of_month:02} {hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_709_251_199, "2024-02-29 23:59:59Z"),
            (1_709_251_200, "2024-03-01 00:00:00Z"),
            (1_795_584_900, "2026-11-25 05:35:00Z"),
            (4_107_542_400, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(date(Duration::from_secs(seconds)), text);
        }
        let years = (0..400 * 366).map(|day| date(Duration::from_secs(day * 86_400)));
        assert!(years.is_sorted(), "later days have later dates");
    }

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
}
