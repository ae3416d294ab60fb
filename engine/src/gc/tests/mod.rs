//! Tests of the decisions of value GC.

mod pace;
mod picker;
mod properties;
mod script;
