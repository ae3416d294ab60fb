//! Golden cases of the deciders of compaction.

mod costs;
mod job;
mod operands;
mod redirect;
pub(super) mod script;
mod segments;
mod split;
pub(super) mod world;

use script::run_file;

#[test]
fn golden_the_most_urgent_level_is_compacted() {
    run_file("picker.txt");
}

#[test]
fn golden_running_jobs_own_tables_and_keys() {
    run_file("running.txt");
}

#[test]
fn golden_manual_ranges() {
    run_file("manual.txt");
}

#[test]
fn golden_tables_whose_values_are_reorganized() {
    run_file("reorganize.txt");
}

#[test]
fn golden_values_that_scans_pay_to_put_in_order() {
    run_file("scan_order.txt");
}

#[test]
fn golden_early_compactions() {
    run_file("early.txt");
}

#[test]
fn golden_stale_tables() {
    run_file("stale.txt");
}

#[test]
fn golden_what_a_closing_session_merges() {
    run_file("closing.txt");
}

#[test]
fn golden_what_an_idle_database_merges_to_settle() {
    run_file("settle.txt");
}
