//! Times to live as text and back.

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
}
