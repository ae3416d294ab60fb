//! The values that a batch asks for. The keys of all of them are in one piece of memory, because a
//! scan has as many as it has pairs.

use crate::base::key::SeqNo;
use crate::base::pointer::ValuePointer;

/// A request for a separated value.
pub struct Want {
    /// The pointer to the value.
    pub pointer: ValuePointer,
    /// The user key that the record must have.
    pub key: KeptKey,
    /// The sequence number that the record must have.
    pub seqno: SeqNo,
}

/// The place of a key in the memory of its [`Wants`].
#[derive(Debug, Clone, Copy, Default)]
pub struct KeptKey {
    start: usize,
    end: usize,
}

/// The requests of a batch.
#[derive(Default)]
pub struct Wants {
    wants: Vec<Want>,
    keys: Vec<u8>,
}

impl Wants {
    /// Creates a batch without requests that will probably have so many.
    pub fn with_capacity(count: usize) -> Wants {
        Wants { wants: Vec::with_capacity(count), keys: Vec::new() }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.wants.len()
    }

    /// Returns the requests, in the order in which they were added.
    pub fn all(&self) -> &[Want] {
        &self.wants
    }

    /// Keeps a key for as long as the batch is there, whether its value is asked for or not.
    pub fn keep(&mut self, key: &[u8]) -> KeptKey {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        KeptKey { start, end: self.keys.len() }
    }

    /// Returns a key that was kept.
    pub fn key(&self, kept: KeptKey) -> &[u8] {
        &self.keys[kept.start..kept.end]
    }

    /// Asks for the value of a key that was kept; returns its index in the batch.
    pub fn ask(&mut self, pointer: ValuePointer, key: KeptKey, seqno: SeqNo) -> usize {
        self.wants.push(Want { pointer, key, seqno });
        self.wants.len() - 1
    }

    /// Keeps a key and asks for its value; returns its index in the batch.
    pub fn add(&mut self, pointer: ValuePointer, key: &[u8], seqno: SeqNo) -> usize {
        let key = self.keep(key);
        self.ask(pointer, key, seqno)
    }
}
