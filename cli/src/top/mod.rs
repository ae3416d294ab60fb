//! The screen of `cleave top`: what a database does now, drawn from two samples of its process.
//!
//! [`sample`] asks, [`sections`] make the parts of the screen, [`screen`] puts them together for
//! the size of the terminal, [`row`] is styled text, and [`tty`] is the terminal.

pub(crate) mod row;
pub(crate) mod sample;
pub(crate) mod screen;
pub(crate) mod sections;
pub(crate) mod tty;
