//! The entries that a cursor has read ahead, in the order of its walk, with their separated values
//! being fetched (WiscKey, section 3.3.1).

use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::value::Value;
use crate::read::fetch::Fetching;
use std::collections::VecDeque;

/// The number of values in the first window; each next one has twice as many.
const FIRST_WINDOW: usize = 4;
/// The greatest number of values in a window.
const MAX_WINDOW: usize = 128;
/// A window gets no more values once it has this many bytes; it has at least one value.
pub const MAX_WINDOW_BYTES: u64 = 4 << 20;
/// A cursor stops reading ahead when this many values in a row were not asked for.
const MAX_UNUSED_VALUES: usize = 16;

/// One entry read ahead.
pub struct WindowEntry {
    /// The entry's key.
    pub key: Vec<u8>,
    /// The entry's value, or where it will come from.
    pub value: WindowValue,
    /// When it expires, if it does.
    pub deadline: Option<Deadline>,
}

/// The value of a [`WindowEntry`].
pub enum WindowValue {
    /// The value, or the error with which its fetch ended.
    Ready(Result<Value>),
    /// The value is still in a batch of fetched values.
    Fetched {
        /// The number of the batch, counted from the cursor's first one.
        batch: u64,
        /// The index of the value in the batch.
        index: usize,
    },
}

/// The entries ahead of a cursor; the first is the cursor's current entry.
#[derive(Default)]
pub struct Window {
    items: VecDeque<WindowEntry>,
    batches: VecDeque<Fetching>,
    /// The number of the first batch in `batches`.
    first_batch: u64,
    size: usize,
    unasked: usize,
    asked: bool,
    /// The error that ended reading ahead; it is returned when the cursor gets there.
    error: Option<Error>,
}

impl Window {
    /// Drops all entries and batches; reads that have not begun are cancelled.
    pub fn clear(&mut self) {
        *self = Window { size: self.size, ..Window::default() };
    }

    /// Resets the window to its first size, because the walk was interrupted.
    pub fn reset_size(&mut self) {
        self.size = 0;
    }

    /// Returns true if the cursor's current entry is in the window.
    pub fn is_open(&self) -> bool {
        !self.items.is_empty()
    }

    /// Returns the cursor's current entry; `None` if the window is closed.
    pub fn front(&self) -> Option<&WindowEntry> {
        self.items.front()
    }

    /// Returns how many values the next batch should hold; 0 if enough are being fetched.
    pub fn wanted(&mut self) -> usize {
        // A batch starts late, because values read ahead beyond the end of a short scan are wasted.
        if self.error.is_some() || self.items.len() > self.size / 4 {
            return 0;
        }
        self.size = (self.size * 2).clamp(FIRST_WINDOW, MAX_WINDOW);
        debug_assert!(self.items.len() < self.size, "the window grows beyond its size");
        self.size
    }

    /// Returns the number that the next batch will have.
    pub fn next_batch(&self) -> u64 {
        self.first_batch + self.batches.len() as u64
    }

    /// Adds entries that were read ahead, their batch, and the error that ended reading ahead, if
    /// any.
    pub fn extend(&mut self, items: Vec<WindowEntry>, batch: Fetching, error: Option<Error>) {
        debug_assert!(self.error.is_none(), "nothing is read ahead beyond an error");
        debug_assert!(self.items.len() + items.len() <= 2 * MAX_WINDOW);
        self.items.extend(items);
        self.batches.push_back(batch);
        self.error = error;
    }

    /// Steps to the next entry; returns the error of reading ahead when the entries before it are
    /// used up.
    pub fn pop(&mut self) -> Result<()> {
        debug_assert!(self.items.len() <= 2 * MAX_WINDOW);
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

    /// Drops batches that no entry needs any more.
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

    /// Returns true if the last values were fetched without being asked for.
    pub fn is_unused(&self) -> bool {
        self.unasked >= MAX_UNUSED_VALUES
    }

    /// Returns the value of the current entry; waits for it if it is still being fetched.
    pub fn value(&mut self) -> Result<Value> {
        self.asked = true;
        let Some(item) = self.items.front_mut() else {
            return Err(Error::wrong_state("the cursor stands on no entry"));
        };
        if let WindowValue::Fetched { batch, index } = item.value {
            assert!(batch >= self.first_batch, "the batch of the current entry was dropped");
            let batch = (batch - self.first_batch) as usize;
            item.value = WindowValue::Ready(self.batches[batch].take(index));
        }
        match &item.value {
            WindowValue::Ready(value) => value.clone(),
            WindowValue::Fetched { .. } => unreachable!("it was fetched just now"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::golden;

    /// Walks as the lines say: `read 9` steps over entries whose values are asked for, `pass 9`
    /// over others; `turn` interrupts the walk, `end` ends reading ahead with an error.
    fn walk(lines: &[&str]) -> String {
        let (mut window, mut text) = (Window::default(), String::new());
        for line in lines {
            let (what, steps) = line.split_once(' ').unwrap_or((line, "0"));
            match what {
                "turn" => {
                    window.clear();
                    window.reset_size();
                }
                "end" => window.error = Some(Error::closed("the end")),
                _ => {}
            }
            for step in 0..steps.parse().unwrap() {
                let ahead = window.items.len();
                let wanted = window.wanted();
                if wanted > 0 {
                    text += &format!("{what} {step}: {ahead} ahead, {wanted} more\n");
                }
                let ready = || WindowValue::Ready(Ok(Value::copy_from(b"value")));
                let entry = |_| WindowEntry { key: vec![], value: ready(), deadline: None };
                let entries = (0..wanted).map(entry);
                window.items.extend(entries);
                let asked = if what == "read" { window.value().map(drop) } else { Ok(()) };
                if let Err(error) = asked.and_then(|()| window.pop()) {
                    text += &format!("{what} {step}: {:?}\n", error.kind());
                    break;
                }
                if window.is_unused() {
                    text += &format!("{what} {step}: in vain\n");
                    break;
                }
            }
        }
        text + if window.is_open() { "open\n" } else { "closed\n" }
    }

    #[test]
    fn golden_windows_grow_with_the_walk() {
        golden("read/testdata/window.txt", walk);
    }
}
