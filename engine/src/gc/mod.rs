//! Floor 7: segments to freed space. Like every background work: pick, run, install.
//!
//! The deciding parts are pure: [`facts`] say where the space is, [`picker`] what to free next,
//! and [`explain`] why; [`log_tail`] when a flush has to come first, [`target`] when to begin,
//! [`pace`] when to count what is live, and how much writers are held up meanwhile, by how fast
//! space comes back (`freed`). A [`liveness_scan`] finds what is live, [`relocate`] moves it or
//! [`punch`] frees what lies between, [`collector`] goes from one to the next; [`dead`] and
//! [`tidy`] end what nothing leads to any more; [`quarantine`] keep what can't be freed, and why.
//!
//! What the room upholds: I4 (the tree alone decides what is live), I5 (segments go, and holes are
//! made, after the edit that says so, with the last reader from before), I6 (what is freed as
//! garbage is hidden for good), I3 (what an edit points to is durable before it).

pub mod collector;
pub mod copying;
pub mod dead;
pub mod explain;
pub mod facts;
mod freed;
pub mod liveness_scan;
pub mod log_tail;
pub mod overwritten;
pub mod pace;
pub mod picker;
pub mod punch;
pub mod quarantine;
pub mod relocate;
pub mod settings;
pub mod survey;
pub mod target;
pub mod tidy;

#[cfg(test)]
mod tests;
