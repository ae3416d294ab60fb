//! Tests on whole databases. In many of them segments were relocated by hand: what value GC leaves
//! behind is read, checked, copied, opened and repaired like anything else.

#[cfg(target_os = "linux")]
mod around_cache;
mod bounded;
pub(crate) mod by_hand;
mod dropped;
mod expired;
mod flushes;
mod head;
mod ingested;
mod look;
mod merged;
mod newer;
mod numbers;
mod overwritten;
mod relocated;
mod repaired;
mod shared;
mod snapshots;
mod syncs;
mod threads;
mod unnamed;
