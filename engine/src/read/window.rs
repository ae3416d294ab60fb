//! The entries that a cursor has read ahead, in the order of its walk, with their separated values
//! being fetched (WiscKey, section 3.3.1).

use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::value::Value;
use crate::read::fetch::{Fetching, LentPlace, LentValue};
use crate::read::walk_files::WalkFiles;
use crate::read::wants::KeptKey;
use std::collections::VecDeque;

/// The number of values in the first window; each next one has twice as many.
const FIRST_WINDOW: usize = 4;
/// The greatest number of values in a window whose values lie apart, each with a read of its own:
/// more would be read in vain where a scan ends.
const MAX_WINDOW: usize = 128;
/// The greatest number of values in a window where neighbours are read together. Each sorted
/// segment has a part of the window's values, and the more they are, the longer are the reads.
/// Measured with 32 sorted segments of 8 MiB, values of 1 KiB and a cold page cache: 257,000 pairs
/// per second with 128, in 61,000 reads, and 780,000 with 4096, in 2,200.
const MAX_JOINED_WINDOW: usize = 4096;
/// Neighbours are read together if at least this part (one in this many) of the reads is saved.
const SAVED_READS_PART: usize = 8;
/// A batch gets no more values once its keys and values have this many bytes; it has at least one
/// value. The next one begins when a quarter of this is left, or a single entry.
pub const MAX_WINDOW_BYTES: u64 = 4 << 20;
/// A cursor stops reading ahead when this many values in a row were not asked for.
const MAX_UNUSED_VALUES: usize = 16;

/// One entry read ahead.
pub struct WindowEntry {
    /// The number of the entry's batch, counted from the cursor's first one.
    pub batch: u64,
    /// The entry's key, kept by the batch.
    pub key: KeptKey,
    /// The entry's value, or where it will come from.
    pub value: WindowValue,
    /// When it expires, if it does.
    pub deadline: Option<Deadline>,
    /// The bytes of the key and the value.
    pub bytes: u64,
}

/// The value of a [`WindowEntry`].
pub enum WindowValue {
    /// The value, or the error with which its fetch ended.
    Ready(Result<Value>),
    /// The value was verified, and lies in the memory of its batch.
    Lent(LentPlace),
    /// The value with this index is still being fetched by its batch.
    Fetched(usize),
}

/// The entries ahead of a cursor; the first is the cursor's current entry.
#[derive(Default)]
pub struct Window {
    items: VecDeque<WindowEntry>,
    /// The bytes of all keys and values in `items`.
    bytes: u64,
    batches: VecDeque<Fetching>,
    /// The number of the first batch in `batches`.
    first_batch: u64,
    size: usize,
    /// True if it is known how many values the walk will probably ask for.
    expects: bool,
    /// The number of those that no batch has yet.
    expected: usize,
    /// True if values of the last batch were read together.
    joined: bool,
    /// The files that the walk has opened for itself.
    files: WalkFiles,
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

    /// Returns true if all that the walk was expected to ask for is used up.
    pub fn is_spent(&self) -> bool {
        self.expects && self.expected == 0 && self.items.is_empty()
    }

    /// Has the next batch be for a walk that will probably ask for so many values, from the current
    /// entry on.
    pub fn begin_with(&mut self, expected: usize) {
        self.expected = expected.clamp(FIRST_WINDOW, MAX_WINDOW);
        self.expects = true;
    }

    /// Has the next batch be for a walk that has asked for `walked` values, further than was
    /// expected: twice as many.
    pub fn grow_from(&mut self, walked: u64) {
        let walked = usize::try_from(walked).unwrap_or(MAX_JOINED_WINDOW);
        (self.expects, self.size) = (false, walked.min(MAX_JOINED_WINDOW));
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
        let most = if self.joined { MAX_JOINED_WINDOW } else { MAX_WINDOW };
        self.size = self.size.min(most);
        // A batch starts late, because values read ahead beyond the end of a short scan are wasted.
        // Behind an expected end it starts only once the cursor knows that the walk goes on.
        let is_behind = self.expects && self.expected == 0;
        let late = if is_behind { 0 } else { (self.size / 4).max(usize::from(self.expects)) };
        // However few large values are, they must not pile up.
        let is_full = self.items.len() > 1 && self.bytes > MAX_WINDOW_BYTES / 4;
        if self.error.is_some() || self.items.len() > late || is_full {
            return 0;
        }
        self.expects &= !is_behind;
        self.size = match self.expects {
            // Large values are in several batches.
            true => self.expected,
            false => (self.size * 2).clamp(FIRST_WINDOW, most),
        };
        debug_assert!(
            self.expects || self.items.len() < self.size,
            "the window grows beyond its size"
        );
        self.size
    }

    /// Returns the files that a walk has for itself once it has come so far that it will probably
    /// go on for long.
    pub fn long_walk(&mut self) -> Option<&mut WalkFiles> {
        (self.size > MAX_WINDOW).then_some(&mut self.files)
    }

    /// I5: closes the files that the walk had for itself, because it is at its end or reads values
    /// that lie apart.
    pub fn end_walk(&mut self) {
        self.files = WalkFiles::default();
    }

    /// Returns the number that the next batch will have.
    pub fn next_batch(&self) -> u64 {
        self.first_batch + self.batches.len() as u64
    }

    /// Adds entries that were read ahead, their batch, and the error that ended reading ahead, if
    /// any.
    pub fn extend(&mut self, items: Vec<WindowEntry>, batch: Fetching, error: Option<Error>) {
        debug_assert!(self.error.is_none(), "nothing is read ahead beyond an error");
        debug_assert!(self.items.len() + items.len() <= 2 * MAX_JOINED_WINDOW);
        self.expected = self.expected.saturating_sub(items.len());
        self.joined = are_joined(batch.values(), batch.reads(), batch.read_bytes());
        self.bytes += items.iter().map(|item| item.bytes).sum::<u64>();
        self.items.extend(items);
        self.batches.push_back(batch);
        self.error = error;
    }

    /// Steps to the next entry; returns the error of reading ahead when the entries before it are
    /// used up.
    pub fn pop(&mut self) -> Result<()> {
        debug_assert!(self.items.len() <= 2 * MAX_JOINED_WINDOW);
        if let Some(item) = self.items.pop_front() {
            self.unasked = if self.asked { 0 } else { self.unasked + 1 };
            self.asked = false;
            self.bytes -= item.bytes;
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
        let needed = self.items.front().map_or(self.next_batch(), |item| item.batch);
        while self.first_batch < needed && self.batches.pop_front().is_some() {
            self.first_batch += 1;
        }
    }

    /// Returns true if the value of the current entry was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// Returns true if the last values were fetched without being asked for.
    pub fn is_unused(&self) -> bool {
        self.unasked >= MAX_UNUSED_VALUES
    }

    /// Returns the key of the cursor's current entry; `None` if the window is closed.
    pub fn key(&self) -> Option<&[u8]> {
        let item = self.items.front()?;
        Some(self.batches[self.batch_of(item)].key(item.key))
    }

    /// Returns the value of the current entry; waits for it if it is still being fetched.
    pub fn value(&mut self) -> Result<Value> {
        self.fetch()?;
        let item = self.items.front().ok_or_else(no_entry)?;
        match &item.value {
            WindowValue::Ready(value) => value.clone(),
            WindowValue::Lent(place) => {
                Ok(Value::copy_from(self.batches[self.batch_of(item)].lent(place)))
            }
            WindowValue::Fetched(_) => unreachable!("it was fetched just now"),
        }
    }

    /// Returns key and value of the current entry as they lie in memory; waits for the value if it
    /// is still being fetched.
    pub fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        self.fetch()?;
        let item = self.items.front().ok_or_else(no_entry)?;
        let batch = &self.batches[self.batch_of(item)];
        let value = match &item.value {
            WindowValue::Ready(value) => value.as_deref().map_err(Error::clone)?,
            WindowValue::Lent(place) => batch.lent(place),
            WindowValue::Fetched(_) => unreachable!("it was fetched just now"),
        };
        Ok((batch.key(item.key), value))
    }

    /// Waits for the value of the current entry, if it is still being fetched.
    fn fetch(&mut self) -> Result<()> {
        self.asked = true;
        let item = self.items.front_mut().ok_or_else(no_entry)?;
        if let WindowValue::Fetched(index) = item.value {
            assert!(item.batch >= self.first_batch, "the batch of the current entry was dropped");
            let batch = &mut self.batches[(item.batch - self.first_batch) as usize];
            item.value = match batch.lend(index) {
                Ok(LentValue::InBatch(place)) => WindowValue::Lent(place),
                Ok(LentValue::Owned(value)) => WindowValue::Ready(Ok(value)),
                Err(error) => WindowValue::Ready(Err(error)),
            };
        }
        Ok(())
    }

    fn batch_of(&self, item: &WindowEntry) -> usize {
        (item.batch - self.first_batch) as usize
    }
}

fn no_entry() -> Error {
    Error::wrong_state("the cursor stands on no entry")
}

/// Returns true if so many values are read together in so many reads, which have `bytes` in all.
/// Reads have the gaps between values, too, each up to a block, which can be far more than small
/// values have: if they fill the memory, the window is too large already.
fn are_joined(values: usize, reads: usize, bytes: u64) -> bool {
    values.saturating_sub(reads) > values / SAVED_READS_PART && bytes <= 2 * MAX_WINDOW_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::golden::golden;

    /// Walks as the lines say: `read 9` steps over entries whose values are asked for, `pass 9`
    /// over others; `expect 9` begins with as many; `turn` interrupts the walk, `end` ends reading
    /// ahead with an error. From `joined` to `apart`, values are read together.
    fn walk(lines: &[&str]) -> String {
        let (mut window, mut text) = (Window::default(), String::new());
        for line in lines {
            let (what, steps) = line.split_once(' ').unwrap_or((line, "0"));
            match what {
                "turn" => {
                    window.clear();
                    window.reset_size();
                }
                "joined" => window.joined = true,
                "apart" => window.joined = false,
                "expect" => window.begin_with(steps.parse().unwrap()),
                "end" => window.error = Some(Error::closed("the end")),
                _ => {}
            }
            let walked = if what == "expect" { 0 } else { steps.parse().unwrap() };
            for step in 0..walked {
                let ahead = window.items.len();
                let wanted = window.wanted();
                if wanted > 0 {
                    text += &format!("{what} {step}: {ahead} ahead, {wanted} more\n");
                }
                let ready = || WindowValue::Ready(Ok(Value::copy_from(b"value")));
                let entry = |_| WindowEntry {
                    batch: 0,
                    key: KeptKey::default(),
                    value: ready(),
                    deadline: None,
                    bytes: 0,
                };
                let entries = (0..wanted).map(entry);
                window.items.extend(entries);
                window.expected = window.expected.saturating_sub(wanted);
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
    fn values_are_joined_if_reads_are_saved() {
        let cases = [((0, 0), false), ((4, 4), false), ((4, 3), true), ((128, 113), false)];
        for ((values, reads), joined) in cases {
            assert_eq!(are_joined(values, reads, 4096), joined, "{values} values in {reads} reads");
        }
        let joined = |values, reads| are_joined(values, reads, MAX_WINDOW_BYTES + 4096);
        assert!(joined(128, 111) && joined(4096, 128) && joined(9, 0));
    }

    /// Small values with gaps between them: a window of 4096 values read 16 MiB and more.
    #[test]
    fn windows_grow_no_further_where_most_of_what_is_read_is_gaps() {
        let bytes = |values: u64| values * (4096 + 200);
        assert!(are_joined(1024, 17, bytes(1024)));
        assert!(!are_joined(2048, 34, bytes(2048)));
        assert!(!are_joined(4096, 68, bytes(4096)));
    }

    #[test]
    fn golden_windows_grow_with_the_walk() {
        golden("read/testdata/window.txt", walk);
    }
}
