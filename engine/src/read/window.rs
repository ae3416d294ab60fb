//! What a cursor has read ahead: entries in walking order, their separated values on the way
//! (WiscKey, section 3.3.1).

use crate::base::error::{Error, Result};
use crate::base::value::Value;
use crate::read::fetch::Fetching;
use std::collections::VecDeque;

/// The first window holds this many values; each next one twice as many...
const FIRST_WINDOW: usize = 4;
/// ...up to this many...
const MAX_WINDOW: usize = 128;
/// ...or this many bytes, but at least one value.
pub const MAX_WINDOW_BYTES: u64 = 4 << 20;
/// A cursor whose last values were not asked for, this many in a row, stops fetching ahead.
const PATIENCE: usize = 16;

/// One entry read ahead.
pub struct WindowEntry {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value, or where it will come from.
    pub value: WindowValue,
}

/// The value of an [`WindowEntry`].
pub enum WindowValue {
    /// Here it is; or the error that its fetch ended with.
    Ready(Result<Value>),
    /// Value number so-and-so of batch number so-and-so.
    Fetched {
        /// Counted from the cursor's first batch.
        batch: u64,
        /// Its number in the batch.
        index: usize,
    },
}

/// Entries ahead of a cursor; the first is the one it stands on.
#[derive(Default)]
pub struct Window {
    items: VecDeque<WindowEntry>,
    batches: VecDeque<Fetching>,
    /// The number of the first batch in `batches`.
    first_batch: u64,
    size: usize,
    unasked: usize,
    asked: bool,
    /// What reading further ahead ended with; delivered when the cursor gets there.
    error: Option<Error>,
}

impl Window {
    /// Forgets everything; reads not begun are cancelled.
    pub fn clear(&mut self) {
        *self = Window { size: self.size, ..Window::default() };
    }

    /// Starts small again: the walk was interrupted.
    pub fn reset_size(&mut self) {
        self.size = 0;
    }

    /// True if the cursor stands on an entry of the window.
    pub fn is_open(&self) -> bool {
        !self.items.is_empty()
    }

    /// The entry the cursor stands on.
    pub fn front(&self) -> Option<&WindowEntry> {
        self.items.front()
    }

    /// How many values the next batch should hold; 0 if enough is on the way.
    pub fn wanted(&mut self) -> usize {
        // Late rather than early: what is read ahead of a short scan's end is read in vain.
        if self.error.is_some() || self.items.len() > self.size / 4 {
            return 0;
        }
        self.size = (self.size * 2).clamp(FIRST_WINDOW, MAX_WINDOW);
        self.size
    }

    /// The number that the next batch will have.
    pub fn next_batch(&self) -> u64 {
        self.first_batch + self.batches.len() as u64
    }

    /// Adds what was read ahead.
    pub fn extend(&mut self, items: Vec<WindowEntry>, batch: Fetching, error: Option<Error>) {
        self.items.extend(items);
        self.batches.push_back(batch);
        self.error = error;
    }

    /// Steps to the next entry. The error of reading ahead is delivered in its place.
    pub fn pop(&mut self) -> Result<()> {
        if let Some(item) = self.items.pop_front() {
            self.unasked = if self.asked { 0 } else { self.unasked + 1 };
            self.asked = false;
            drop(item);
        }
        self.drop_finished();
        match (self.items.is_empty(), self.error.take()) {
            (true, Some(error)) => Err(error),
            (_, error) => {
                self.error = error;
                Ok(())
            }
        }
    }

    /// Lets go of batches that no entry waits for.
    fn drop_finished(&mut self) {
        let needed = self.items.iter().find_map(|item| match item.value {
            WindowValue::Fetched { batch, .. } => Some(batch),
            WindowValue::Ready(_) => None,
        });
        let needed = needed.unwrap_or(self.next_batch());
        while self.first_batch < needed && self.batches.pop_front().is_some() {
            self.first_batch += 1;
        }
    }

    /// True if the last values were fetched in vain.
    pub fn is_in_vain(&self) -> bool {
        self.unasked >= PATIENCE
    }

    /// The value of the entry the cursor stands on; waits for it if it is on the way.
    pub fn value(&mut self) -> Result<Value> {
        self.asked = true;
        let Some(item) = self.items.front_mut() else {
            return Err(Error::wrong_state("the cursor stands on no entry"));
        };
        if let WindowValue::Fetched { batch, index } = item.value {
            let batch = (batch - self.first_batch) as usize;
            item.value = WindowValue::Ready(self.batches[batch].take(index));
        }
        match &item.value {
            WindowValue::Ready(value) => value.clone(),
            WindowValue::Fetched { .. } => unreachable!("it was fetched just now"),
        }
    }
}
