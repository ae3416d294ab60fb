//! Tests of the decisions of value GC.

mod live_estimate;
mod picker;
mod properties;
mod script;
