//! Tests of what value GC decides.

mod pace;
mod picker;
mod properties;
mod script;
