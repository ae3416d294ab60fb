//! The engines behind C interfaces, and all of this program's `unsafe` code.

pub mod advice;
#[cfg(feature = "leveldb")]
pub mod leveldb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
