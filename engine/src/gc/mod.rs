//! Floor 7: value GC, which turns segments with dead values into free space. Like all background
//! work it goes in three stages: pick, run, install.
//!
//! The deciding parts are pure:
//!
//! - [`facts`] describe where the space is, [`picker`] decides what to free next, and [`explain`]
//!   gives the reasons.
//! - [`log_tail`] decides when a flush has to come first, [`bounds`] when GC begins, and
//!   [`discardable`] what is freed for its share of garbage alone.
//! - [`live_estimate`] says how much is live, and when to count again; `hidden_share` says it where
//!   all values are in tables, by a sample of keys (`hidden_sample`), and nothing is counted.
//!   Meanwhile writers are held up by the rule in [`ceiling`](crate::throttle::ceiling), by how
//!   fast space comes back (`freed`).
//! - What was freed takes space until nobody holds it (`held`), and where there is no room for a
//!   flush beside a relocation, they take turns (`flush_turn`).
//!
//! A [`liveness_scan`] finds what is live. [`relocate`] moves it, or [`punch`] frees what lies
//! between; [`collector`] leads from one step to the next. [`dead`] and [`tidy`] remove what
//! nothing leads to any more. [`quarantine`] keeps the segments that can't be freed, with the
//! reason.
//!
//! The room upholds I4 (the tree alone decides what is live), I5 (segments are removed, and holes
//! punched, only after the edit that records it and after the last reader from before), I6 (what is
//! freed as garbage is hidden for good) and I3 (what an edit points to is durable before the edit).

mod beside;
pub mod bounds;
pub mod collector;
pub mod copying;
pub mod dead;
pub mod discardable;
pub mod explain;
pub mod facts;
mod first_scan;
mod flush_turn;
mod freed;
mod held;
mod hidden_sample;
pub mod hidden_share;
pub mod live_estimate;
pub mod liveness_scan;
mod loading;
pub mod log_tail;
pub mod overwritten;
pub mod picker;
pub mod punch;
pub mod quarantine;
pub mod record_list;
mod record_runs;
pub mod relocate;
pub mod settings;
pub mod survey;
pub mod tidy;
mod victim_reader;

#[cfg(test)]
mod tests;
