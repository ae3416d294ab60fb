//! Cases of the picker, with its reasons.

use super::script::run_file;

#[test]
fn golden_the_bounds_are_kept() {
    run_file("bounds.txt");
}

#[test]
fn golden_what_must_stay_stays() {
    run_file("stays.txt");
}

#[test]
fn golden_holes_are_punched_where_that_is_cheaper() {
    run_file("punch.txt");
}

#[test]
fn golden_discardable_segments_are_freed_where_the_bounds_hold() {
    run_file("discardable.txt");
}

#[test]
fn golden_idle_and_manual_collecting() {
    run_file("occasions.txt");
}

#[test]
fn golden_the_tail_of_the_log_is_flushed_when_it_is_in_the_way() {
    run_file("log_tail.txt");
}
