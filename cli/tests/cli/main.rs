//! The command as its users meet it: every test runs the real program.

mod bench;
mod common;
mod demo;
#[cfg(target_os = "linux")]
mod doctor;
mod documents;
#[cfg(unix)]
mod in_use;
#[cfg(unix)]
mod interrupted;
mod kill;
#[cfg(target_os = "linux")]
mod live;
mod load;
#[cfg(unix)]
mod moving;
mod pin_tree;
mod places;
#[cfg(unix)]
mod space;
mod streams;
#[cfg(target_os = "linux")]
mod terminal;
mod transcripts;
