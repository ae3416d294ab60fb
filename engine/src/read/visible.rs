//! The entries that a reader at one sequence number sees in a walk over entries: the newest entry
//! of each key within bounds, without tombstones, without what a range tombstone hides and without
//! what has expired.

use crate::base::bounds::Bounds;
use crate::base::entry::deadline_of;
use crate::base::error::Result;
use crate::base::expiry::ExpiryTime;
use crate::base::iter::EntryIter;
use crate::base::key::{EntryKind, FIRST_OWN_SEQNO, KeyOrder, MAX_SEQNO, SeqNo, Trailer};
use crate::base::range_tombstone::{RangeCover, RangeTombstone};
use crate::version::expiry::ReadPoint;

/// Walks user keys with their newest visible entry.
///
/// Going forward, the inner iterator is on the current entry. Going backward, it is before all
/// entries of the current key; the visible entry is copied, because the newest entry of a key is
/// the last one met on the way.
pub struct VisibleIter<I> {
    inner: I,
    order: KeyOrder,
    seqno: SeqNo,
    /// The sequence number of the last entry of the reader's own transaction that it sees; zero for
    /// a reader without one.
    own_seqno: SeqNo,
    time: ExpiryTime,
    /// The range tombstones over the entries of `inner`.
    cover: RangeCover,
    bounds: Bounds,
    state: VisibleState,
    key: Vec<u8>,
    trailer: Trailer,
    payload: Vec<u8>,
}

/// Returns true if a reader at `reader`, whose own entries go up to `own`, sees what was written at
/// `seqno`.
#[inline]
fn sees(reader: SeqNo, own: SeqNo, seqno: SeqNo) -> bool {
    seqno <= reader || (FIRST_OWN_SEQNO..=own).contains(&seqno)
}

/// Returns true if two keys are the same: an order may take only such for equal. Neighbours mostly
/// end otherwise, so their ends are compared first, which takes no call.
#[inline]
fn is_same_key(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.last_chunk::<8>() == b.last_chunk::<8>() && a == b
}

/// So many entries of a key are passed one by one, before a search passes the others: it costs
/// about as much as these steps in a memtable.
const MOST_PASSED: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum VisibleState {
    Invalid,
    Forward,
    Backward,
}

impl<I: EntryIter> VisibleIter<I> {
    /// Creates an iterator over what a reader at `point` sees of `inner` within `bounds`.
    /// `cover` has the range tombstones over these entries.
    pub fn new(
        inner: I,
        order: KeyOrder,
        point: ReadPoint<'_>,
        bounds: Bounds,
        cover: RangeCover,
    ) -> Self {
        let (seqno, time) = (point.seqno, point.moment.time());
        VisibleIter {
            inner,
            order,
            seqno,
            own_seqno: 0,
            time,
            cover,
            bounds,
            state: VisibleState::Invalid,
            key: Vec::new(),
            trailer: Trailer::LAST,
            payload: Vec::new(),
        }
    }

    /// Lets the reader also see the entries of its own transaction, which are from
    /// [`FIRST_OWN_SEQNO`] to `own_seqno`.
    pub fn with_own(mut self, own_seqno: SeqNo) -> Self {
        debug_assert!(own_seqno >= FIRST_OWN_SEQNO && self.seqno < FIRST_OWN_SEQNO);
        self.own_seqno = own_seqno;
        self
    }

    /// Returns the iterator over all entries; it must not be moved.
    pub fn inner_mut(&mut self) -> &mut I {
        &mut self.inner
    }

    /// Returns true if the reader sees what was written at `seqno`.
    #[inline]
    fn sees(&self, seqno: SeqNo) -> bool {
        sees(self.seqno, self.own_seqno, seqno)
    }

    /// Returns the range tombstone that hides the inner iterator's current entry from the reader.
    #[inline]
    fn hidden(&mut self) -> Option<&RangeTombstone> {
        if self.cover.is_empty() {
            return None;
        }
        let (seqno, own_seqno) = (self.seqno, self.own_seqno);
        let entry = self.inner.trailer().seqno();
        let newest = self.cover.at(self.inner.user_key(), |it| sees(seqno, own_seqno, it));
        newest.filter(|newest| entry < newest.seqno)
    }

    /// Moves the inner iterator over an entry within bounds that a range tombstone hides, and over
    /// others that it hides in the same sorted run. Returns false if none hides it.
    #[cold]
    fn pass_hidden(&mut self, forward: bool) -> Result<bool> {
        let key = self.inner.user_key();
        let is_outside = match forward {
            true => self.bounds.is_behind(&self.order, key),
            false => self.bounds.is_before(&self.order, key),
        };
        if is_outside {
            return Ok(false);
        }
        let Some(hidden) = self.hidden().cloned() else {
            return Ok(false);
        };
        match forward {
            true => self.inner.next_behind(&hidden)?,
            false => self.inner.prev_before(&hidden)?,
        }
        Ok(true)
    }

    /// Returns the trailer that sorts before all entries of a key that the reader sees.
    fn newest(&self) -> Trailer {
        Trailer::seek(self.seqno.max(self.own_seqno))
    }

    /// Returns true if the iterator is on a key.
    pub fn valid(&self) -> bool {
        self.state != VisibleState::Invalid
    }

    /// Returns the current key.
    pub fn user_key(&self) -> &[u8] {
        debug_assert!(self.valid(), "the iterator stands on no key");
        if self.state == VisibleState::Backward { &self.key } else { self.inner.user_key() }
    }

    /// Returns the sequence number and kind of the visible entry.
    pub fn trailer(&self) -> Trailer {
        let is_copied = self.state == VisibleState::Backward;
        let trailer = if is_copied { self.trailer } else { self.inner.trailer() };
        debug_assert!(self.sees(trailer.seqno()), "I1: a later commit is seen");
        trailer
    }

    /// Returns the stored payload of the visible entry.
    pub fn payload(&self) -> &[u8] {
        debug_assert!(self.valid(), "the iterator stands on no key");
        if self.state == VisibleState::Backward { &self.payload } else { self.inner.payload() }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.state = VisibleState::Invalid;
        match self.bounds.lower.clone() {
            Some(lower) if self.bounds.open_lower => self.inner.seek(&lower, Trailer::LAST)?,
            Some(lower) => self.inner.seek(&lower, self.newest())?,
            None => self.inner.seek_to_first()?,
        }
        self.settle_forward(false)
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.state = VisibleState::Invalid;
        self.inner.seek_before_cut(self.bounds.end())?;
        self.settle_backward()
    }

    /// Moves to the first key at or after `user_key`.
    pub fn seek(&mut self, user_key: &[u8]) -> Result<()> {
        if self.bounds.is_before(&self.order, user_key) {
            return self.seek_to_first();
        }
        self.state = VisibleState::Invalid;
        self.inner.seek(user_key, self.newest())?;
        self.settle_forward(false)
    }

    /// Moves to the last key at or before `user_key`.
    pub fn seek_for_prev(&mut self, user_key: &[u8]) -> Result<()> {
        if self.bounds.is_behind(&self.order, user_key) {
            return self.seek_to_last();
        }
        self.state = VisibleState::Invalid;
        // All entries of `user_key` sort before this place, except for the last conceivable one,
        // which cannot exist because sequence numbers start at one.
        self.inner.seek_before(user_key, Trailer::LAST)?;
        self.settle_backward()
    }

    /// Moves to the next key; does nothing without a current key.
    pub fn next(&mut self) -> Result<()> {
        match self.state {
            VisibleState::Invalid => Ok(()),
            VisibleState::Forward => {
                self.key.clear();
                self.key.extend_from_slice(self.inner.user_key());
                self.step_inner()?;
                self.settle_forward(true)
            }
            VisibleState::Backward => {
                // The inner iterator is before the entries of the current key.
                self.state = VisibleState::Invalid;
                let key = std::mem::take(&mut self.key);
                self.inner.seek(&key, Trailer::LAST)?;
                self.key = key;
                self.settle_forward(true)
            }
        }
    }

    /// Moves to the previous key; does nothing without a current key.
    pub fn prev(&mut self) -> Result<()> {
        if self.state == VisibleState::Forward {
            self.state = VisibleState::Invalid;
            let key = self.inner.user_key().to_vec();
            self.inner.seek_before(&key, Trailer::seek(MAX_SEQNO))?;
        } else if self.state == VisibleState::Invalid {
            return Ok(());
        }
        self.settle_backward()
    }

    /// Returns true if the inner iterator stands on a tombstone, or on what has expired.
    fn is_absent(&self) -> Result<bool> {
        let kind = self.inner.trailer().kind()?;
        let deadline = deadline_of(kind, self.inner.payload())?;
        Ok(kind == EntryKind::Delete || deadline.is_some_and(|it| it.has_passed(self.time)))
    }

    fn step_inner(&mut self) -> Result<()> {
        self.inner.next().inspect_err(|_| self.state = VisibleState::Invalid)
    }

    /// Finds the next visible key from the inner iterator's position on; with `skip`, one that is
    /// not `self.key`.
    fn settle_forward(&mut self, mut skip: bool) -> Result<()> {
        self.state = VisibleState::Invalid;
        let mut passed = 0;
        while self.inner.valid() {
            if !self.cover.is_empty() && self.pass_hidden(true)? {
                continue;
            }
            let key = self.inner.user_key();
            if self.bounds.is_behind(&self.order, key) {
                return Ok(());
            }
            let is_old = skip && is_same_key(key, &self.key);
            let trailer = self.inner.trailer();
            if is_old || !self.sees(trailer.seqno()) {
                passed += 1;
                if passed > MOST_PASSED {
                    passed = 0;
                    self.pass(is_old)?;
                    continue;
                }
            } else {
                if !self.is_absent()? {
                    self.state = VisibleState::Forward;
                    return Ok(());
                }
                skip = true;
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.inner.next()?;
        }
        Ok(())
    }

    /// Moves the inner iterator on from an entry that is older than the visible one of its key, or
    /// newer than what the reader sees. A key that is overwritten often has thousands of these in
    /// a memtable, so they are passed by a search.
    #[cold]
    fn pass(&mut self, is_old: bool) -> Result<()> {
        if matches!(self.order, KeyOrder::Custom(_)) {
            // A user's order may be none, and a search by it could go back.
            return self.inner.next();
        }
        let key = self.inner.user_key().to_vec();
        let seqno = self.inner.trailer().seqno();
        // What others wrote lies behind all that the reader's own transaction did.
        let first_seen =
            if seqno > self.own_seqno { self.newest() } else { Trailer::seek(self.seqno) };
        self.inner.next_towards(&key, if is_old { Trailer::LAST } else { first_seen })
    }

    /// Walks back from the inner iterator's position, key by key, until one has a visible value,
    /// and copies that entry.
    fn settle_backward(&mut self) -> Result<()> {
        self.state = VisibleState::Invalid;
        while self.inner.valid() {
            if !self.cover.is_empty() && self.pass_hidden(false)? {
                continue;
            }
            if self.bounds.is_before(&self.order, self.inner.user_key()) {
                return Ok(());
            }
            if self.collect_newest()? {
                self.state = VisibleState::Backward;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Walks back over all entries of the key under the inner iterator. Returns true if the newest
    /// visible entry is a value, which is then copied. It steps at least once, so that a user's
    /// order by which a key is not even equal to itself cannot stop the walk.
    fn collect_newest(&mut self) -> Result<bool> {
        self.key.clear();
        self.key.extend_from_slice(self.inner.user_key());
        let (mut found, mut passed) = (false, 0);
        loop {
            let trailer = self.inner.trailer();
            // What a range tombstone hides is older than what was met and not hidden.
            if self.sees(trailer.seqno()) && self.hidden().is_none() {
                // Oldest first: the last one taken is the newest visible entry.
                found = !self.is_absent()?;
                if found {
                    self.trailer = trailer;
                    self.payload.clear();
                    self.payload.extend_from_slice(self.inner.payload());
                }
            }
            passed += 1;
            if passed > MOST_PASSED {
                passed = 0;
                self.pass_back(trailer.seqno())?;
            } else {
                self.inner.prev()?;
            }
            let ends =
                !self.inner.valid() || self.order.compare(self.inner.user_key(), &self.key).is_ne();
            if ends {
                return Ok(found);
            }
        }
    }

    /// Does as [`VisibleIter::pass`] backward, from an entry of `self.key` with this number. The
    /// bounds are the last number that the reader sees, the last one of its own transaction that it
    /// sees, and the greatest. Moves the inner iterator to the newest entry of its input up to the
    /// next bound, or one step if it stands there.
    #[cold]
    fn pass_back(&mut self, seqno: SeqNo) -> Result<()> {
        if matches!(self.order, KeyOrder::Custom(_)) {
            return self.inner.prev();
        }
        let newest = match seqno {
            _ if seqno <= self.seqno => self.seqno,
            // What the reader's own transaction wrote is before all that others did.
            _ if seqno <= self.own_seqno => self.own_seqno,
            _ => MAX_SEQNO,
        };
        let key = std::mem::take(&mut self.key);
        let moved = self.inner.prev_towards(&key, Trailer::seek(newest));
        self.key = key;
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::entry::{Payload, Slot};
    use crate::base::expiry::Deadline;
    use crate::base::golden::golden;
    use crate::memtable::{Memtable, MemtableIter};
    use crate::read::input::SortedRunIter;
    use crate::read::merge::MergeIter;
    use crate::version::expiry::Moment;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    /// Runs a case: `entries a9 a5x a7~60` are a put and a tombstone of the key `a`, and a put with
    /// the deadline 60. `at 7 [b-d)` is a reader at a sequence number within bounds, `at 7@50` one
    /// at the time 50; the result is its walk forward and backward. Steps behind it, as in
    /// `at 7 seek=b next prev`, are taken instead.
    fn run(lines: &[&str]) -> String {
        let table = Arc::new(Memtable::new(KeyOrder::Bytewise));
        let mut text = String::new();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["entries", ref entries @ ..] => entries.iter().for_each(|it| insert(&table, it)),
                ["deleted", ref deleted @ ..] => deleted.iter().for_each(|it| delete(&table, it)),
                ["at", seqno, ref rest @ ..] => {
                    let (bounds, steps): (Vec<&str>, _) =
                        rest.iter().partition(|word| word.starts_with(['[', '(']));
                    let bounds =
                        bounds.first().map_or(Bounds::default(), |word| Bounds::parse(word));
                    let (seqno, time) = seqno.split_once('@').unwrap_or((seqno, "0"));
                    let seqno = seqno.parse().expect(line);
                    let moment = Moment::At(ExpiryTime(time.parse().expect(line)));
                    let (point, order) = (ReadPoint { seqno, moment }, KeyOrder::Bytewise);
                    let cover = RangeCover::new(order.clone(), table.ranges());
                    let iter = VisibleIter::new(table.iter(), order, point, bounds, cover);
                    text += &if steps.is_empty() { walks(iter) } else { stepped(iter, &steps) };
                }
                _ => panic!("{line}"),
            }
        }
        text
    }

    fn insert(table: &Arc<Memtable>, entry: &str) {
        let (put, deadline) = entry.split_once('~').unwrap_or((entry, ""));
        let seqno = put[1..].trim_end_matches('x').parse().expect(entry);
        let slot = match put.ends_with('x') {
            true => Slot::Delete,
            false => Slot::Inline(put.as_bytes()),
        };
        let deadline = deadline.parse().ok().map(Deadline);
        let payload = Payload { is_merge: false, deadline, slot };
        table.insert(&entry.as_bytes()[..1], Trailer::new(seqno, payload.kind()), payload);
    }

    fn delete(table: &Arc<Memtable>, word: &str) {
        let (bounds, seqno) = word.split_at(word.find([')', ']']).expect(word) + 1);
        table.insert_range(Bounds::parse(bounds).into(), seqno.parse().expect(word));
    }

    fn here(iter: &VisibleIter<MemtableIter>) -> String {
        if !iter.valid() {
            return "end".to_owned();
        }
        // The entry's value says which entry it is.
        let kind = iter.trailer().kind().unwrap();
        let Slot::Inline(entry) = Slot::decode(kind, iter.payload()).unwrap() else { panic!() };
        let entry = String::from_utf8_lossy(entry).into_owned();
        let key = String::from_utf8_lossy(iter.user_key());
        assert_eq!(entry, format!("{key}{}", iter.trailer().seqno()));
        entry
    }

    fn walks(mut iter: VisibleIter<MemtableIter>) -> String {
        let mut seen = Vec::new();
        for forward in [true, false] {
            if forward { iter.seek_to_first() } else { iter.seek_to_last() }.unwrap();
            while iter.valid() {
                seen.push(here(&iter));
                if forward { iter.next() } else { iter.prev() }.unwrap();
            }
            seen.push(if forward { "end, back" } else { "end" }.to_owned());
        }
        seen.join(" ") + "\n"
    }

    fn stepped(mut iter: VisibleIter<MemtableIter>, steps: &[&str]) -> String {
        let mut seen = Vec::new();
        for step in steps {
            match step.split_once('=').unwrap_or((step, "")) {
                ("first", _) => iter.seek_to_first(),
                ("last", _) => iter.seek_to_last(),
                ("seek", key) => iter.seek(key.as_bytes()),
                ("before", key) => iter.seek_for_prev(key.as_bytes()),
                ("next", _) => iter.next(),
                ("prev", _) => iter.prev(),
                _ => panic!("{step}"),
            }
            .unwrap();
            seen.push(format!("{step} {}", here(&iter)));
        }
        seen.join(", ") + "\n"
    }

    /// Counts the steps of an iterator.
    struct Counted<I>(I, usize);

    impl<I: EntryIter> EntryIter for Counted<I> {
        fn valid(&self) -> bool {
            self.0.valid()
        }

        fn seek_to_first(&mut self) -> Result<()> {
            self.0.seek_to_first()
        }

        fn seek_to_last(&mut self) -> Result<()> {
            self.0.seek_to_last()
        }

        fn seek(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
            self.0.seek(user_key, trailer)
        }

        fn seek_before(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
            self.0.seek_before(user_key, trailer)
        }

        fn next(&mut self) -> Result<()> {
            self.1 += 1;
            self.0.next()
        }

        fn prev(&mut self) -> Result<()> {
            self.1 += 1;
            self.0.prev()
        }

        fn next_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
            self.1 += 1;
            self.0.next_towards(user_key, trailer)
        }

        fn prev_towards(&mut self, user_key: &[u8], trailer: Trailer) -> Result<()> {
            self.1 += 1;
            self.0.prev_towards(user_key, trailer)
        }

        fn leave(&mut self) {
            self.0.leave();
        }

        fn user_key(&self) -> &[u8] {
            self.0.user_key()
        }

        fn trailer(&self) -> Trailer {
            self.0.trailer()
        }

        fn payload(&self) -> &[u8] {
            self.0.payload()
        }
    }

    /// A key that is overwritten all the time had a scan step over each of its entries: with 15,000
    /// of them, one that began there took 3 ms.
    #[test]
    fn a_key_with_thousands_of_entries_takes_few_steps_both_ways() {
        let new = || Arc::new(Memtable::new(KeyOrder::Bytewise));
        let (table, parts) = (new(), [new(), new()]);
        for seqno in 1..=9999 {
            insert(&table, &format!("b{seqno}"));
            insert(&parts[seqno / 5000], &format!("b{seqno}"));
        }
        for entry in ["a10000", "c10001"] {
            insert(&table, entry);
            insert(&parts[1], entry);
        }
        take_few_steps(|| table.iter());
        take_few_steps(|| {
            let inputs = parts.iter().map(|part| SortedRunIter::Memtable(part.iter()));
            MergeIter::new(KeyOrder::Bytewise, inputs.collect())
        });
    }

    /// Walks both ways as readers that see three keys and one.
    fn take_few_steps<I: EntryIter>(inner: impl Fn() -> I) {
        for (seqno, keys) in [(20_000, 3), (5000, 1)] {
            for forward in [true, false] {
                let moment = Moment::At(ExpiryTime(0));
                let (point, order) = (ReadPoint { seqno, moment }, KeyOrder::Bytewise);
                let (bounds, cover) = (Bounds::default(), RangeCover::new(order.clone(), []));
                let inner = Counted(inner(), 0);
                let mut iter = VisibleIter::new(inner, order, point, bounds, cover);
                if forward { iter.seek_to_first() } else { iter.seek_to_last() }.unwrap();
                let mut seen = 0;
                while iter.valid() {
                    seen += 1;
                    if forward { iter.next() } else { iter.prev() }.unwrap();
                }
                assert_eq!(seen, keys);
                assert!(iter.inner.1 < 60, "{} steps at {seqno}", iter.inner.1);
            }
        }
    }

    /// What a reader sees of `entries` at `seqno`, with its own up to `own`: the newest of each
    /// key, by the key.
    fn model(entries: &[(u8, SeqNo, bool)], seqno: SeqNo, own: SeqNo) -> BTreeMap<u8, SeqNo> {
        let mut newest: BTreeMap<u8, (SeqNo, bool)> = BTreeMap::new();
        for &(key, at, is_put) in entries.iter().filter(|(_, at, _)| sees(seqno, own, *at)) {
            let place = newest.entry(key).or_insert((at, is_put));
            *place = (*place).max((at, is_put));
        }
        newest
            .into_iter()
            .filter(|(_, (_, is_put))| *is_put)
            .map(|(key, (at, _))| (key, at))
            .collect()
    }

    /// Keys with up to a hundred entries each, strewn over several inputs, some of them the
    /// reader's own, walked with turns.
    #[test]
    fn random_walks_over_keys_with_many_entries() {
        let mut rng = 7u64;
        let mut below = |bound: u64| {
            rng =
                rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (rng >> 33) % bound
        };
        for round in 0..60 {
            let tables: Vec<_> =
                (0..3).map(|_| Arc::new(Memtable::new(KeyOrder::Bytewise))).collect();
            let (mut entries, mut at) = (Vec::new(), 1);
            for number in 0..300 {
                at += 1 + below(3);
                let first_own = number == 250 && round % 2 == 0;
                at = if first_own { FIRST_OWN_SEQNO } else { at };
                let (key, is_put) = (b'a' + below(4) as u8, below(5) > 0);
                let slot = if is_put { Slot::Inline(b"v") } else { Slot::Delete };
                let trailer = Trailer::new(at, Payload::from(slot).kind());
                tables[below(3) as usize].insert(&[key], trailer, slot);
                entries.push((key, at, is_put));
            }
            let seqno = entries[below(250) as usize].1;
            let own = if round % 2 == 0 { entries[250 + below(50) as usize].1 } else { 0 };
            let seen: Vec<_> = model(&entries, seqno, own).into_iter().collect();
            let inputs = tables.iter().map(|table| SortedRunIter::Memtable(table.iter())).collect();
            let (order, moment) = (KeyOrder::Bytewise, Moment::At(ExpiryTime(0)));
            let merged = MergeIter::new(order.clone(), inputs);
            let cover = RangeCover::new(order.clone(), []);
            let point = ReadPoint { seqno, moment };
            let iter = VisibleIter::new(merged, order, point, Bounds::default(), cover);
            let mut iter = if own > 0 { iter.with_own(own) } else { iter };
            let mut place = None;
            for _ in 0..60 {
                match below(8) {
                    0 => (place, _) = (Some(0), iter.seek_to_first().unwrap()),
                    1 => (place, _) = (seen.len().checked_sub(1), iter.seek_to_last().unwrap()),
                    2..5 => {
                        iter.next().unwrap();
                        place = place.map(|at| at + 1);
                    }
                    _ => {
                        iter.prev().unwrap();
                        place = place.and_then(|at: usize| at.checked_sub(1));
                    }
                }
                place = place.filter(|at| *at < seen.len());
                let found = iter.valid().then(|| (iter.user_key()[0], iter.trailer().seqno()));
                assert_eq!(found, place.map(|at| seen[at]), "round {round}");
            }
        }
    }

    #[test]
    fn i06_golden_what_a_reader_sees() {
        golden("read/testdata/visible.txt", run);
    }
}
