//! The user's cursor: it walks keys in both directions. Values are fetched on demand, and ahead of
//! time once the walk is steady.
//!
//! At first it steps the merged iterator directly. After a few steps in one direction whose
//! separated values were asked for, it opens a [`Window`]: the iterator runs ahead, and the values
//! of the entries that it passes are read in parallel while the user works on the first. Where most
//! of the last walks asked for more values than that, the window opens with the first value, and is
//! as long as half of them went at most: a scan then takes the time of one or two reads.

use crate::base::bounds::Bounds;
use crate::base::entry::{Payload, Slot, deadline_of};
use crate::base::error::{Error, Result};
use crate::base::expiry::Deadline;
use crate::base::key::{EntryKind, KeyOrder, SeqNo};
use crate::base::value::Value;
use crate::memtable::Memtable;
use crate::read::demand::{ScanNotes, extra_reads};
use crate::read::fetch::Fetcher;
use crate::read::input::SortedRunIter;
use crate::read::level_iter::{LevelIter, ReadMode};
use crate::read::merge::MergeIter;
use crate::read::operands::ChainReader;
use crate::read::visible::VisibleIter;
use crate::read::wants::Wants;
use crate::read::window::{MAX_WINDOW_BYTES, Window, WindowEntry, WindowValue};
use crate::version::expiry::ReadPoint;
use crate::version::levels::LEVELS;
use crate::version::view::View;
use crate::version::walks::{READ_BYTES, WalkLengths};
use std::sync::Arc;

/// The number of steps in one direction, each with its value asked for, after which values are read
/// ahead.
const STEADY_STEPS: u32 = 2;

/// Returns all entries of a view as one sorted iterator.
pub fn merged(view: &View, mode: ReadMode) -> Result<MergeIter> {
    Ok(MergeIter::new(view.levels.order().clone(), inputs(view, mode)?))
}

/// Returns an iterator over each sorted run of a view.
fn inputs(view: &View, mode: ReadMode) -> Result<Vec<SortedRunIter>> {
    let order = view.levels.order();
    let mut inputs = Vec::new();
    for memtable in view.memtables().filter(|memtable| !memtable.table.is_empty()) {
        inputs.push(SortedRunIter::Memtable(memtable.table.iter()));
    }
    for run in view.levels.level0_runs() {
        inputs.push(SortedRunIter::level0(order, run, mode)?);
    }
    for level in 1..LEVELS {
        if !view.levels.level(level).is_empty() {
            inputs.push(SortedRunIter::Level(LevelIter::of_level(&view.levels, level, mode)));
        }
    }
    Ok(inputs)
}

/// The entries that a transaction has written and not committed, in one keyspace.
#[derive(Clone)]
pub struct OwnEntries {
    /// The entries, all from [`FIRST_OWN_SEQNO`](crate::base::key::FIRST_OWN_SEQNO) on.
    pub table: Arc<Memtable>,
    /// The sequence number of the last one that is seen.
    pub last: SeqNo,
}

/// The settings of a cursor.
pub struct CursorSettings {
    /// The range of keys that the cursor walks.
    pub bounds: Bounds,
    /// True if values may be read ahead.
    pub prefetch: bool,
    /// True if blocks that are read are added to the cache.
    pub fill_cache: bool,
    /// The entries of the reader's own transaction, if it has any in this keyspace.
    pub own: Option<OwnEntries>,
    /// How far walks over the keyspace go.
    pub walks: Arc<WalkLengths>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// The place of the inner iterator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IterPlace {
    /// On the cursor's current entry.
    Current {
        /// The number of steps in a row in one direction, each from an entry whose value was asked
        /// for.
        steady: u32,
    },
    /// Ahead of it: the current entry is in the window, or the walk has ended.
    Ahead,
}

impl IterPlace {
    /// The place after a jump or a turn.
    const START: IterPlace = IterPlace::Current { steady: 0 };
}

/// A cursor over one view at one sequence number.
pub struct TreeCursor {
    view: Arc<View>,
    fetcher: Fetcher,
    iter: VisibleIter<MergeIter>,
    /// The newest sequence number in the view that the reader sees.
    seqno: SeqNo,
    settings: CursorSettings,
    window: Window,
    direction: Direction,
    place: IterPlace,
    /// True if the value of the current entry was asked for.
    asked: bool,
    /// The number of values that the walk has asked for since the last jump.
    walked: u64,
    /// The number of entries that the inputs expect walks to pass.
    expected: usize,
    /// The value that was lent last, if it is neither in a block nor in the window.
    held: Option<Value>,
    notes: ScanNotes,
}

impl Drop for TreeCursor {
    fn drop(&mut self) {
        self.note_walk();
    }
}

impl TreeCursor {
    /// Creates a cursor without a position, for a reader at `point`.
    pub fn new(
        view: Arc<View>,
        point: ReadPoint<'_>,
        fetcher: Fetcher,
        settings: CursorSettings,
    ) -> Result<Self> {
        let mode = if settings.fill_cache { ReadMode::Cached } else { ReadMode::Uncached };
        let order: KeyOrder = view.levels.order().clone();
        let mut inputs = inputs(&view, mode)?;
        let own = &settings.own;
        inputs.extend(own.iter().map(|own| SortedRunIter::Memtable(own.table.iter())));
        let merged = MergeIter::new(order.clone(), inputs);
        let own_ranges = own.iter().flat_map(|own| own.table.ranges());
        let cover = view.ranges().with(own_ranges);
        let iter = VisibleIter::new(merged, order, point, settings.bounds.clone(), cover);
        let iter = match own {
            Some(own) => iter.with_own(own.last),
            None => iter,
        };
        Ok(TreeCursor {
            notes: fetcher.notes(),
            view,
            fetcher,
            iter,
            seqno: point.seqno,
            settings,
            window: Window::default(),
            direction: Direction::Forward,
            place: IterPlace::START,
            asked: false,
            walked: 0,
            expected: 0,
            held: None,
        })
    }

    /// Returns true if the cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.window.is_open() || self.iter.valid() && self.place != IterPlace::Ahead
    }

    fn jump(&mut self, direction: Direction) {
        self.notes.hand_over();
        self.note_walk();
        self.window.clear();
        self.window.reset_size();
        self.place = IterPlace::START;
        self.direction = direction;
        self.asked = false;
        self.held = None;
        self.expect_walk();
    }

    /// Tells the inputs how far the next walk will probably go, if that is not what they know.
    fn expect_walk(&mut self) {
        let walks = &self.settings.walks;
        let expected = if self.settings.prefetch { walks.expected() } else { 0 };
        if expected != self.expected {
            self.expected = expected;
            self.iter.inner_mut().expect(expected as u64);
        }
    }

    /// Notes the length of the walk that ends here, unless it asked for no value.
    fn note_walk(&mut self) {
        match std::mem::take(&mut self.walked) {
            0 => {}
            walked => self.settings.walks.note(walked),
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.jump(Direction::Forward);
        self.iter.seek_to_first()
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.jump(Direction::Backward);
        self.iter.seek_to_last()
    }

    /// Moves to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.jump(Direction::Forward);
        self.iter.seek(key)
    }

    /// Moves to the last key at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<()> {
        self.jump(Direction::Backward);
        self.iter.seek_for_prev(key)
    }

    /// Returns the current key. Requires: [`TreeCursor::valid`].
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid(), "the cursor stands on no entry");
        if self.window.is_open() {
            return self.window.key().unwrap_or_default();
        }
        self.iter.user_key()
    }

    /// Returns when the current entry expires, if it does. Requires: [`TreeCursor::valid`].
    pub fn deadline(&self) -> Option<Deadline> {
        match self.window.front() {
            Some(item) => item.deadline,
            // What can't be decoded was an error already when the iterator came here.
            None => deadline_of(self.iter.trailer().kind().ok()?, self.iter.payload()).ok()?,
        }
    }

    /// Moves to the next key; does nothing without a current entry.
    pub fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    /// Moves to the previous key; does nothing without a current entry.
    pub fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    fn step(&mut self, direction: Direction) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        self.held = None;
        if self.direction != direction || self.window.is_unused() {
            self.come_back()?;
            self.direction = direction;
        }
        let IterPlace::Current { steady } = self.place else {
            self.window.pop()?;
            if self.window.is_spent() {
                // The iterator stands on the current entry again. If its value is asked for, the
                // walk goes further than expected.
                (self.place, self.asked) = (IterPlace::START, false);
                return Ok(());
            }
            return self.read_ahead();
        };
        match direction {
            Direction::Forward => self.iter.next()?,
            Direction::Backward => self.iter.prev()?,
        }
        let steady = if self.asked { (steady + 1).min(STEADY_STEPS) } else { 0 };
        self.place = IterPlace::Current { steady };
        self.asked = false;
        let separated = self.iter.valid() && self.is_separated()?;
        if self.settings.prefetch && separated && steady >= STEADY_STEPS {
            self.place = IterPlace::Ahead;
            self.read_ahead()?;
        }
        Ok(())
    }

    /// Opens the window with the first value of a walk that will probably be long, and with the
    /// first one beyond what was expected; returns true if it did. `is_new` says that the value was
    /// not asked for before: what was lent of the entry then must stay.
    fn opens_early(&mut self, is_new: bool) -> Result<bool> {
        let goes_on = self.window.is_spent() && !self.window.is_unused();
        // It is asked for once in a walk, not for each value.
        let expected = if is_new && self.walked == 1 { self.settings.walks.expected() } else { 0 };
        let begins = expected > STEADY_STEPS as usize;
        if !self.settings.prefetch || !begins && !goes_on || !self.is_separated()? {
            return Ok(false);
        }
        if begins {
            self.window.begin_with(expected);
        } else {
            match self.settings.walks.beyond(self.walked.saturating_sub(1)) {
                Some(expected) => self.window.begin_with(expected),
                None => self.window.grow_from(self.walked),
            }
        }
        self.place = IterPlace::Ahead;
        // An error concerns the current entry, on which the iterator still stands.
        self.read_ahead().inspect_err(|_| self.place = IterPlace::START)?;
        Ok(true)
    }

    fn is_separated(&self) -> Result<bool> {
        Ok(self.iter.trailer().kind()?.is_pointer())
    }

    /// Drops the window and moves the iterator back to the current entry.
    fn come_back(&mut self) -> Result<()> {
        self.place = IterPlace::START;
        self.asked = false;
        let key = self.window.key().map(<[u8]>::to_vec);
        self.window.clear();
        self.window.reset_size();
        key.map_or(Ok(()), |key| self.iter.seek(&key))
    }

    /// Lets the iterator run ahead and starts to fetch the values that it passes, if the window
    /// wants more.
    fn read_ahead(&mut self) -> Result<()> {
        debug_assert!(self.place == IterPlace::Ahead && self.settings.prefetch);
        let count = self.window.wanted();
        if !self.iter.valid() {
            self.window.end_walk();
            return Ok(());
        }
        if count == 0 {
            return Ok(());
        }
        let batch = self.window.next_batch();
        let (mut items, mut wants) = (Vec::with_capacity(count), Wants::with_capacity(count));
        let mut bytes = 0;
        let mut failed = None;
        while self.iter.valid() && items.len() < count && bytes < MAX_WINDOW_BYTES {
            match self.take_item(batch, &mut wants) {
                Ok(item) => {
                    bytes += item.bytes;
                    items.push(item);
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
            let stepped = match self.direction {
                Direction::Forward => self.iter.next(),
                Direction::Backward => self.iter.prev(),
            };
            if let Err(error) = stepped {
                failed = Some(error);
                break;
            }
        }
        debug_assert!(wants.len() <= items.len() && items.len() <= count);
        let (values, fetched) = (wants.len(), wants.all().iter().map(|want| want.pointer.length));
        let value_bytes = fetched.map(u64::from).sum();
        let fetching = match (self.direction, self.window.long_walk()) {
            (Direction::Forward, Some(files)) => {
                self.fetcher.next_of_walk(&self.view, wants, files)
            }
            _ => {
                self.window.end_walk();
                self.fetcher.many(&self.view, wants)
            }
        };
        let reads = fetching.reads();
        self.fetcher.note_prefetched(values, reads);
        if let Some(first) = items.first() {
            let values = values as u64;
            let extra = extra_reads(values, value_bytes, reads as u64);
            self.settings.walks.note_costs(values * READ_BYTES, extra * READ_BYTES);
            self.notes.window(&self.view, fetching.key(first.key), extra);
        }
        let nothing = items.is_empty() && !self.window.is_open();
        match failed {
            Some(error) if nothing => return Err(error),
            failed => self.window.extend(items, fetching, failed),
        }
        Ok(())
    }

    /// Returns the iterator's entry for the window.
    fn take_item(&self, batch: u64, wants: &mut Wants) -> Result<WindowEntry> {
        let (trailer, user_key) = (self.iter.trailer(), self.iter.user_key());
        let key = wants.keep(user_key);
        let payload = Payload::decode(trailer.kind()?, self.iter.payload())?;
        let Payload { is_merge, deadline, slot } = payload;
        let (value, bytes) = match slot {
            Slot::Inline(_) | Slot::Pointer(_) if is_merge => {
                let value = self.merged(user_key, trailer.seqno());
                let bytes = value.as_ref().map_or(0, |value| value.len() as u64);
                (WindowValue::Ready(value), bytes)
            }
            Slot::Delete => unreachable!("tombstones are hidden"),
            Slot::Inline(value) => {
                (WindowValue::Ready(Ok(Value::copy_from(value))), value.len() as u64)
            }
            Slot::Pointer(pointer) => {
                let index = wants.ask(pointer, key, trailer.seqno());
                (WindowValue::Fetched(index), u64::from(pointer.length))
            }
        };
        let bytes = bytes + user_key.len() as u64;
        Ok(WindowEntry { batch, key, value, deadline, bytes })
    }

    /// Returns the value of a key whose newest entry is an operand with this number.
    #[cold]
    fn merged(&self, key: &[u8], newest: SeqNo) -> Result<Value> {
        let (view, own) = (&self.view, self.settings.own.as_ref());
        let (seqno, fill_cache) = (self.seqno, self.settings.fill_cache);
        ChainReader { view, own, seqno, fill_cache }.merged(key, newest, &self.fetcher)
    }

    /// Returns key and value of the current entry as they lie in memory. A value that is neither
    /// compressed nor encrypted is not copied if it is inline or was read ahead. Who asks again
    /// before the next move gets the same memory.
    pub fn pair(&mut self) -> Result<(&[u8], &[u8])> {
        if self.valid() && !self.window.is_open() && self.is_plain_inline()? {
            self.walked += u64::from(!std::mem::replace(&mut self.asked, true));
            return match Slot::decode(self.iter.trailer().kind()?, self.iter.payload())? {
                Slot::Inline(value) => Ok((self.iter.user_key(), value)),
                Slot::Pointer(_) | Slot::Delete => unreachable!("the kind of the entry says so"),
            };
        }
        if self.held.is_none() {
            match self.value_beside_window()? {
                None => return self.window.pair(),
                value => self.held = value,
            }
        }
        Ok((self.key(), self.held.as_deref().unwrap_or_default()))
    }

    /// Returns true if the iterator stands on an inline value that is no operand.
    fn is_plain_inline(&self) -> Result<bool> {
        let kind = self.iter.trailer().kind()?;
        Ok(!kind.is_merge() && !kind.is_pointer() && kind != EntryKind::Delete)
    }

    /// Returns the value of the current entry. An error concerns this entry only: the walk can go
    /// on.
    pub fn value(&mut self) -> Result<Value> {
        match self.value_beside_window()? {
            Some(value) => Ok(value),
            None => self.window.value(),
        }
    }

    /// Notes that the value of the current entry is asked for, and returns it unless the window has
    /// it.
    fn value_beside_window(&mut self) -> Result<Option<Value>> {
        if !self.valid() {
            return Err(Error::wrong_state("the cursor stands on no entry"));
        }
        let is_new = !std::mem::replace(&mut self.asked, true);
        if self.window.is_open() {
            self.walked += u64::from(!self.window.is_asked());
            return Ok(None);
        }
        self.walked += u64::from(is_new);
        if self.opens_early(is_new)? {
            return Ok(None);
        }
        let (trailer, key) = (self.iter.trailer(), self.iter.user_key());
        if trailer.kind()?.is_merge() {
            return self.merged(key, trailer.seqno()).map(Some);
        }
        match Slot::decode(trailer.kind()?, self.iter.payload())? {
            Slot::Delete => unreachable!("tombstones are hidden"),
            Slot::Inline(value) => Ok(Some(Value::copy_from(value))),
            Slot::Pointer(pointer) => {
                self.fetcher.value(&self.view, pointer, key, trailer.seqno()).map(Some)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::Payload;
    use crate::base::golden::golden;
    use crate::base::key::{MAX_SEQNO, Trailer};
    use crate::base::pointer::{KeyspaceId, SegmentId, ValuePointer};
    use crate::env::Env;
    use crate::stats::Counters;
    use crate::version::levels::Levels;
    use crate::version::view::LoggedMemtable;

    /// Runs a case: `pointers a-z` and `inline a-c` are entries. `keys` or `values` creates a
    /// cursor, which the other lines move: `next 5` steps, `read 5` asks for the value before each
    /// step, and so do `prev` and `read-back`. What a step began to fetch is in parentheses. A
    /// cursor knows how long the walks of those before it were. The segment of the pointers does
    /// not exist: that is an error of the values, and ends no walk.
    fn run(lines: &[&str]) -> String {
        let memtable = Arc::new(LoggedMemtable::new(KeyOrder::Bytewise));
        let counters = Arc::new(Counters::default());
        let walks = Arc::new(WalkLengths::default());
        let (mut cursor, mut text) = (None, String::new());
        for line in lines {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            match what {
                "pointers" | "inline" => insert(&memtable, what == "pointers", rest),
                "keys" | "values" => {
                    drop(cursor.take());
                    let walks = walks.clone();
                    cursor = Some(start(&memtable, &counters, what == "values", walks));
                }
                _ => {
                    let cursor = cursor.as_mut().expect("`keys` or `values`");
                    let steps = walk(cursor, &counters, what, rest);
                    text += &format!("{line}: {}\n", steps.join(" "));
                }
            }
        }
        text
    }

    fn insert(memtable: &LoggedMemtable, pointers: bool, range: &str) {
        let (first, last) = range.split_once('-').expect(range);
        for key in first.as_bytes()[0]..=last.as_bytes()[0] {
            let seqno = u64::from(key);
            let pointer = ValuePointer { segment: SegmentId(1), offset: seqno, length: 100 };
            let slot = if pointers { Slot::Pointer(pointer) } else { Slot::Inline(b"value") };
            memtable.table.insert(&[key], Trailer::new(seqno, Payload::from(slot).kind()), slot);
        }
    }

    fn start(
        memtable: &Arc<LoggedMemtable>,
        counters: &Arc<Counters>,
        prefetch: bool,
        walks: Arc<WalkLengths>,
    ) -> TreeCursor {
        let view = View {
            keyspace: KeyspaceId(1),
            version: Arc::default(),
            levels: Arc::new(Levels::new(KeyOrder::Bytewise)),
            active: memtable.clone(),
            immutables: Vec::new(),
            installation: 0,
            shown: 0,
            merging: None,
        };
        let fetcher = Fetcher::new(Env::simulated(1).0.reader, counters.clone());
        let bounds = Bounds::default();
        let settings = CursorSettings { bounds, prefetch, fill_cache: true, own: None, walks };
        let point = ReadPoint::timeless(MAX_SEQNO);
        TreeCursor::new(Arc::new(view), point, fetcher, settings).unwrap()
    }

    /// Takes the steps of a line; returns where the cursor is after each.
    fn walk(cursor: &mut TreeCursor, counters: &Counters, what: &str, rest: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..rest.parse().unwrap_or(1) {
            let before = counters.prefetched_values.get();
            if what.starts_with("read") {
                drop(cursor.value());
            }
            match what {
                "first" => cursor.seek_to_first(),
                "last" => cursor.seek_to_last(),
                "seek" => cursor.seek(rest.as_bytes()),
                "before" => cursor.seek_for_prev(rest.as_bytes()),
                "next" | "read" => cursor.next(),
                "prev" | "read-back" => cursor.prev(),
                _ => panic!("{what}"),
            }
            .unwrap();
            let fetched = counters.prefetched_values.get() - before;
            seen.push(match cursor.valid() {
                true => String::from_utf8_lossy(cursor.key()).into_owned(),
                false => "end".to_owned(),
            });
            if fetched > 0 {
                seen.push(format!("({fetched})"));
            }
        }
        seen
    }

    /// A cursor over large values held far more than the 4 MiB of a window: the next batch, which
    /// has up to as many bytes again, was begun when few values were ahead, whatever their length.
    /// With a quarter of 4096 values ahead of 100 KiB each, that was 100 MiB. Keys did not count
    /// at all. Now the bytes that are ahead count, too.
    #[test]
    fn windows_hold_few_bytes_however_long_keys_and_values_are() {
        for (key_bytes, value_bytes) in [(6, 100 << 10), (60 << 10, 100), (6, 3 << 20), (6, 4000)] {
            let memtable = Arc::new(LoggedMemtable::new(KeyOrder::Bytewise));
            let (count, length) = (800, value_bytes as u32);
            for number in 0..count {
                let mut key = format!("{number:06}").into_bytes();
                key.resize(key_bytes, b' ');
                let pointer = ValuePointer { segment: SegmentId(1), offset: number, length };
                let (slot, seqno) = (Slot::Pointer(pointer), number + 1);
                memtable.table.insert(&key, Trailer::new(seqno, Payload::from(slot).kind()), slot);
            }
            let counters = Arc::new(Counters::default());
            let mut cursor = start(&memtable, &counters, true, Arc::default());
            cursor.seek_to_first().unwrap();
            for number in 0..count {
                drop(cursor.value());
                // The first two are read one by one.
                let ahead = (2 + counters.prefetched_values.get()).saturating_sub(number);
                let entry = (key_bytes + value_bytes) as u64;
                let most = MAX_WINDOW_BYTES + MAX_WINDOW_BYTES / 4 + 2 * entry;
                assert!(ahead * entry <= most, "{ahead} entries of {entry} bytes");
                assert!(ahead > 0, "value {number} was not read ahead");
                cursor.next().unwrap();
            }
            assert!(!cursor.valid());
        }
    }

    /// A batch of large values has few of those that are expected. The cursor took it for all of
    /// them, and waited at the end of each for the next one, which had not begun.
    #[test]
    fn a_walk_over_large_values_waits_only_where_it_was_expected_to_end() {
        let memtable = Arc::new(LoggedMemtable::new(KeyOrder::Bytewise));
        for number in 0..200_u64 {
            let pointer = ValuePointer { segment: SegmentId(1), offset: number, length: 1 << 20 };
            let (slot, seqno) = (Slot::Pointer(pointer), number + 1);
            let key = number.to_be_bytes();
            memtable.table.insert(&key, Trailer::new(seqno, Payload::from(slot).kind()), slot);
        }
        let walks = Arc::new(WalkLengths::default());
        (0..3).for_each(|_| walks.note(100));
        let mut cursor = start(&memtable, &Arc::new(Counters::default()), true, walks);
        cursor.seek_to_first().unwrap();
        let mut waits = Vec::new();
        for number in 0..200 {
            waits.extend((!cursor.window.is_open()).then_some(number));
            drop(cursor.value());
            cursor.next().unwrap();
        }
        assert_eq!(waits, [0, 100]);
    }

    #[test]
    fn golden_cursors_read_ahead_once_the_walk_is_steady() {
        golden("read/testdata/cursor.txt", run);
    }
}
