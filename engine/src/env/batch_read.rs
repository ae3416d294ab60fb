//! Many reads at once: what makes range queries over separated values fast (WiscKey, section
//! 3.3.1). A device answers thirty random reads in little more than the time of one.

use super::fs::File;
use std::io;
use std::sync::Arc;

/// One read: `len` bytes at `offset`.
#[derive(Clone)]
pub struct ReadRequest {
    /// Where from.
    pub file: Arc<dyn File>,
    /// First byte.
    pub offset: u64,
    /// How many bytes; a file that ends before is an `UnexpectedEof` error of this request.
    pub len: usize,
}

/// Reads that are under way. Dropping it cancels those that have not begun.
pub trait PendingReads: Send {
    /// Waits for request number `index` of the batch and takes its bytes or its error. Each may
    /// be taken once. Errors of other requests do not matter here.
    fn take(&mut self, index: usize) -> io::Result<Vec<u8>>;
}

/// A way to have many reads in flight.
pub trait BatchReader: Send + Sync {
    /// Hands over a batch and returns at once.
    fn submit(&self, requests: Vec<ReadRequest>) -> Box<dyn PendingReads>;
    /// For statistics: "threads", "io_uring" or "one by one".
    fn name(&self) -> &'static str;
}
