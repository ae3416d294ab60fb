//! The whole database in the simulation: crashes, faults, and random workloads, each a function of
//! its seed.

mod client;
mod collect;
mod crash;
mod dropping;
mod extremes;
mod faults;
mod full;
mod model;
mod panics;
mod punch;
mod random;
mod refused;
mod script;
mod sync_every;
