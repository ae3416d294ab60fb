//! The measured rate at which space comes back; it decides how much writers are held up.

use std::time::Duration;

/// The bytes freed and the time that took. Both decay by a sixteenth with each round, so that about
/// as many rounds count as there are between two liveness scans.
#[derive(Debug, Default)]
pub struct FreeingRate {
    bytes: u64,
    time: Duration,
    /// Time spent on freeing since the last call of `pass`.
    worked: Duration,
    /// The time of the last call of `pass`, if writers waited for space then; otherwise `None`.
    awaited_since: Option<Duration>,
}

impl FreeingRate {
    /// Adds the bytes that a round freed and the time it took.
    pub fn note(&mut self, bytes: u64, time: Duration) {
        self.bytes = self.bytes / 16 * 15 + bytes;
        self.time = self.time / 16 * 15 + time;
        self.worked += time;
    }

    /// Adds the time since the last call, if writers waited for space then. All of it counts, also
    /// the time that went into counting or into waiting for a flush.
    pub fn pass(&mut self, now: Duration, is_awaited: bool) {
        if let Some(since) = self.awaited_since.take() {
            self.time += now.saturating_sub(since).saturating_sub(self.worked);
        }
        self.worked = Duration::ZERO;
        self.awaited_since = is_awaited.then_some(now);
    }

    /// Returns the rate in bytes per second; 0 if nothing was measured yet.
    pub fn per_second(&self) -> u64 {
        (self.bytes as f64 / self.time.as_secs_f64().max(1e-9)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_writers_wait_for_counts_whole() {
        let mut freed = FreeingRate::default();
        assert_eq!(freed.per_second(), 0);
        freed.pass(ms(0), false);
        freed.note(1 << 20, ms(10));
        freed.pass(ms(1000), false);
        assert_eq!(freed.per_second(), 100 << 20, "nobody waited in between");
        freed.pass(ms(2000), true);
        freed.pass(ms(2010), true);
        assert_eq!(freed.per_second(), 50 << 20, "it was waited for in vain");
        freed.note(1 << 20, ms(10));
        let before = freed.per_second();
        freed.pass(ms(2020), false);
        assert_eq!(freed.per_second(), before, "all of that time is noted already");
        freed.pass(ms(9000), false);
        assert_eq!(freed.per_second(), before);
    }

    #[test]
    fn the_past_fades() {
        let mut freed = FreeingRate::default();
        freed.note(1 << 30, ms(1));
        for _ in 0..200 {
            freed.note(1 << 20, ms(10));
        }
        assert!(freed.per_second().abs_diff(100 << 20) < 5 << 20, "{}", freed.per_second());
    }
}
