//! What an opening does before there is an open database: it checks the place, creates what is
//! missing, and makes a version out of the manifest and memtables out of the log.
//!
//! ```text
//! place.rs        what is at the path: nothing, a database of ours, or somebody else's files
//! create.rs       an empty database, whose CURRENT comes last
//! comparators.rs  the user's comparators, which must be those that the keyspaces were made with
//! recover.rs      what is live, what a crash left over, and how that is settled
//! ```
//! Until everything was read and checked, no file changes. What is removed was left by a crash and
//! is named by no live edit (I5). `db/open.rs` calls the steps in order; a repair uses some.

pub mod comparators;
pub mod create;
pub mod place;
pub mod recover;
