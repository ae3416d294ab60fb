//! CleaveDB: an embeddable key-value storage engine for SSDs.

pub mod base;
pub mod cache;
pub mod env;
pub mod segment;
pub mod table;

pub use base::error::{Error, ErrorKind, Result};
pub use base::value::Value;
