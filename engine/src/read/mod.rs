//! Floor 5: point reads and cursors over one [`crate::version::view::View`], and the only place
//! where a value pointer becomes a value for a user.
//!
//! Nothing here takes a lock that a writer needs, and nothing that a reader holds is ever removed.

pub mod changed;
pub mod cursor;
pub mod demand;
pub mod fetch;
pub mod get;
pub mod input;
pub mod level_iter;
pub mod merge;
pub mod operands;
mod read_plan;
pub mod visible;
pub mod walk_files;
pub mod wants;
pub mod window;
