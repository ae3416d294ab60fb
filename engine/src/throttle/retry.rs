//! The rules of what has failed (I9): how long background work rests before it tries again.

use std::time::Duration;

/// The pause after the first failure; it doubles with each further one. What failed by chance is
/// done again before anybody notices.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause: what fails for good costs little, and a disk that was full is noticed to have
/// room again within seconds.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The rest of a segment after a first failure that may pass, for example of a read: value GC goes
/// on with other segments, so there is no hurry. Each further failure doubles it.
const FIRST_SEGMENT_REST: Duration = Duration::from_secs(60);

/// The longest rest of a segment.
const LONGEST_SEGMENT_REST: Duration = Duration::from_secs(3600);

/// Returns the pause before a job is tried again that has failed `failures` times in a row.
pub fn pause(failures: u32) -> Duration {
    assert!(failures > 0, "a job that did not fail is not held up");
    (FIRST_PAUSE * (1 << (failures.min(16) - 1))).min(LONGEST_PAUSE)
}

/// Returns how long value GC leaves a segment alone that it could not free, if that may pass.
/// `before` is the rest after the failure before, if there was one.
pub fn segment_rest(before: Option<Duration>) -> Duration {
    before.map_or(FIRST_SEGMENT_REST, |rest| (rest * 2).min(LONGEST_SEGMENT_REST))
}
