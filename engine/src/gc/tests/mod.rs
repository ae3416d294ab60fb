//! Tests of what value GC decides.

mod picker;
mod properties;
mod script;
