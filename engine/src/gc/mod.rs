//! Floor 7: segments to freed space. Like every background work: pick, run, install.

pub mod dead;
pub mod settings;
