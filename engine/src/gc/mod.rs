//! Floor 7: segments to freed space. Like every background work: pick, run, install.
//!
//! The deciding parts are pure: [`facts`] say where the space is, [`picker`] what to free next,
//! and [`explain`] why; [`log_tail`] when a flush has to come first, [`target`] when to begin.

pub mod dead;
pub mod explain;
pub mod facts;
pub mod log_tail;
#[cfg_attr(not(test), expect(dead_code, reason = "for the jobs to come"))]
pub mod picker;
pub mod settings;
#[cfg_attr(not(test), expect(dead_code, reason = "for the jobs to come"))]
pub mod target;

#[cfg(test)]
mod tests;
