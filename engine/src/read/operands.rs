//! Merges the operands of a key with the value under them, for a reader who has met an operand as
//! the newest entry.
//!
//! The *chain* of a key is what the reader sees of it, newest first, up to the first entry that is
//! no operand: the base. A tombstone is a base without a value, and so is a range tombstone over
//! the key, of which the reader's newest counts. The sorted runs of a view are asked one after the
//! other, newest first, because what a deeper one has of a key is older (I6); those behind the base
//! are not read.
//!
//! A chain that is long is merged once. The value then stays in the memo of the keyspace
//! (`version/merging.rs`, which says why that is right), and later readers merge what is newer.

use crate::base::entry::{Payload, Slot};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{FIRST_OWN_SEQNO, KeyOrder, SeqNo, Trailer};
use crate::base::pointer::ValuePointer;
use crate::base::value::Value;
use crate::read::cursor::OwnEntries;
use crate::read::fetch::Fetcher;
use crate::read::level_iter::ReadMode;
use crate::read::wants::Wants;
use crate::version::merging::{MEMO_FROM_OPERANDS, Merging};
use crate::version::view::View;
use std::ops::Range;
use std::sync::Arc;

/// A read merges about this many bytes of a chain at once.
const PIECE_BYTES: u64 = if cfg!(test) { 4 << 10 } else { 16 << 20 };

/// A reader of a chain.
#[derive(Clone, Copy)]
pub struct ChainReader<'a> {
    /// The view that is read.
    pub view: &'a Arc<View>,
    /// The entries of the reader's own transaction, if it has any in this keyspace.
    pub own: Option<&'a OwnEntries>,
    /// The newest sequence number in the view that the reader sees.
    pub seqno: SeqNo,
    /// True if blocks that are read are added to the cache.
    pub fill_cache: bool,
}

/// The bytes of an operand or a base.
enum ChainPart {
    Inline(Vec<u8>),
    Separated(ValuePointer, SeqNo),
}

impl ChainPart {
    fn bytes(&self) -> u64 {
        match self {
            ChainPart::Inline(value) => value.len() as u64,
            ChainPart::Separated(pointer, _) => pointer.length.into(),
        }
    }
}

/// What a chain ends in.
enum Base {
    /// No value.
    Nothing,
    /// A value that was put.
    Put(ChainPart),
    /// The value that the entry there and all older ones make.
    Merged(Arc<[u8]>),
}

/// The chain of a key, as far as it was walked.
struct Chain<'a> {
    key: &'a [u8],
    order: &'a KeyOrder,
    /// The numbers of the entries, newest first.
    seqnos: Vec<SeqNo>,
    /// The operands among them, newest first.
    operands: Vec<ChainPart>,
    base: Option<Base>,
    memo: Option<(SeqNo, Arc<[u8]>)>,
}

impl Chain<'_> {
    /// Takes the entries of one sorted run from the number `from` down to those behind `cut`, which
    /// a range tombstone hides. Returns true at the end of the chain.
    fn take(&mut self, mut run: impl EntryIter, from: SeqNo, cut: SeqNo) -> Result<bool> {
        run.seek(self.key, Trailer::seek(from))?;
        while run.valid() && self.order.compare(run.user_key(), self.key).is_eq() {
            let seqno = run.trailer().seqno();
            if seqno <= cut {
                self.base = Some(Base::Nothing);
                return Ok(true);
            }
            self.seqnos.push(seqno);
            if let Some((_, value)) = self.memo.take_if(|(newest, _)| *newest == seqno) {
                self.base = Some(Base::Merged(value));
                return Ok(true);
            }
            let payload = Payload::decode(run.trailer().kind()?, run.payload())?;
            let part = match payload.slot {
                Slot::Delete => None,
                _ if payload.is_expired_for_all() => None,
                Slot::Inline(value) => Some(ChainPart::Inline(value.to_vec())),
                Slot::Pointer(pointer) => Some(ChainPart::Separated(pointer, seqno)),
            };
            match part {
                Some(part) if payload.is_merge => self.operands.push(part),
                part => {
                    self.base = Some(part.map_or(Base::Nothing, Base::Put));
                    return Ok(true);
                }
            }
            run.next()?;
        }
        Ok(false)
    }
}

impl ChainReader<'_> {
    /// Walks the chain of `key` from the entry `newest` down.
    fn walk<'a>(
        &'a self,
        key: &'a [u8],
        newest: SeqNo,
        memo: Option<(SeqNo, Arc<[u8]>)>,
    ) -> Result<Chain<'a>> {
        let (view, order) = (self.view, self.view.levels.order());
        let (seqnos, operands) = (Vec::new(), Vec::new());
        let mut chain = Chain { key, order, seqnos, operands, base: None, memo };
        if newest >= FIRST_OWN_SEQNO
            && let Some(own) = self.own
        {
            let cut = own.table.newest_range(key, |it| it <= newest);
            if chain.take(own.table.iter(), newest, cut.unwrap_or(0))? || cut.is_some() {
                return Ok(chain);
            }
        }
        let from = self.seqno.min(newest);
        // I6: what the reader's newest range tombstone over the key hides is no part of the chain.
        let cut = view.newest_range(key, |it| it <= from).unwrap_or(0);
        for memtable in view.memtables() {
            if chain.take(memtable.table.iter(), from, cut)? {
                return Ok(chain);
            }
        }
        let mode = if self.fill_cache { ReadMode::Cached } else { ReadMode::Uncached };
        for handle in view.levels.holders(key) {
            let summary = &handle.meta.summary;
            if summary.min_seqno > from || summary.max_seqno <= cut {
                continue;
            }
            let table = handle.table()?;
            if table.may_hold(key) && chain.take(mode.iter(&table), from, cut)? {
                return Ok(chain);
            }
        }
        Ok(chain)
    }

    /// Returns true if the entry with the number `seqno` is in the chain of `key` that begins at
    /// the entry `newest`.
    pub fn has_in_chain(&self, key: &[u8], newest: SeqNo, seqno: SeqNo) -> Result<bool> {
        Ok(self.walk(key, newest, None)?.seqnos.contains(&seqno))
    }

    /// Returns the value of `key`, whose newest entry for the reader is an operand with the number
    /// `newest`.
    ///
    /// Costs a search in each sorted run down to the base, and a read for each separated operand
    /// and for a separated base.
    #[cold]
    pub fn merged(&self, key: &[u8], newest: SeqNo, fetcher: &Fetcher) -> Result<Value> {
        let value = self.merged_if_any(key, newest, fetcher)?;
        value.ok_or_else(|| Error::internal("an operand that was just read is gone"))
    }

    /// Returns what the entries of `key` up to `newest` make, or `None` if that is no value.
    #[cold]
    pub fn merged_if_any(
        &self,
        key: &[u8],
        newest: SeqNo,
        fetcher: &Fetcher,
    ) -> Result<Option<Value>> {
        let merging = self.view.merging.as_ref().ok_or_else(|| no_operator(key))?;
        let is_own = newest >= FIRST_OWN_SEQNO;
        let chain = self.walk(key, newest, merging.recall(key))?;
        let count = chain.operands.len();
        let mut operands = chain.operands;
        let mut value = match chain.base.unwrap_or(Base::Nothing) {
            Base::Nothing => None,
            Base::Merged(value) => Some(Value::copy_from(&value)),
            // It is read together with the oldest operands.
            Base::Put(part) => {
                operands.push(part);
                None
            }
        };
        // The oldest come first. What they make is the base of the next ones, as it is when a
        // compaction merges them, so a long chain takes no more memory than one piece of it.
        let mut refused = Vec::new();
        while let Some(begin) = last_piece(&operands) {
            let is_put = operands.len() > count;
            let mut values = self.fetch(key, operands.split_off(begin), fetcher)?;
            if is_put {
                value = values.pop();
            }
            values.append(&mut refused);
            // If the entry itself is a value, the operator is not asked.
            if values.is_empty() {
                continue;
            }
            let piece: Vec<&[u8]> = values.iter().rev().map(|value| &value[..]).collect();
            match merging.full(key, value.as_deref(), &piece) {
                Ok(merged) => value = Some(Value::from(merged)),
                Err(error) if operands.is_empty() => return Err(error),
                // What the operator makes of some operands may be no value, and with the newer ones
                // it is, as with a sum that is too large on the way.
                Err(error) => refused = in_half_a_piece(merging, key, values)?.ok_or(error)?,
            }
        }
        if let Some(value) = value.as_ref().filter(|_| count > MEMO_FROM_OPERANDS && !is_own) {
            merging.remember(key, newest, value);
        }
        Ok(value)
    }

    /// Returns the bytes of all parts, in their order.
    fn fetch(&self, key: &[u8], parts: Vec<ChainPart>, fetcher: &Fetcher) -> Result<Vec<Value>> {
        fetch_parts(parts, |wants| {
            let mut asked = Wants::with_capacity(wants.len());
            let kept = asked.keep(key);
            for &(pointer, seqno) in wants {
                asked.ask(pointer, kept, seqno);
            }
            let count = asked.len();
            let mut fetching = fetcher.many(self.view, asked);
            (0..count).map(|index| fetching.take(index)).collect()
        })
    }
}

/// Returns the index at which the last piece of `parts` begins, which is merged at once: at least
/// one part, and more as long as they have no more than [`PIECE_BYTES`]. `None` if there is none.
fn last_piece(parts: &[ChainPart]) -> Option<usize> {
    let mut bytes = 0;
    let is_within = |part: &&ChainPart| {
        bytes += part.bytes();
        bytes <= PIECE_BYTES
    };
    let count = parts.iter().rev().take_while(is_within).count();
    parts.len().checked_sub(count.max(1))
}

/// Returns fewer operands that do what these do, newest first; `None` if the operator can't combine
/// them to half of a piece, so that they would take up ever more memory.
fn in_half_a_piece(
    merging: &Merging,
    key: &[u8],
    operands: Vec<Value>,
) -> Result<Option<Vec<Value>>> {
    let fewer = combined(merging, key, operands)?.into_iter().map(|(_, operand)| operand);
    let fewer: Vec<Value> = fewer.collect();
    let bytes: u64 = fewer.iter().map(|operand| operand.len() as u64).sum();
    Ok((bytes <= PIECE_BYTES / 2).then_some(fewer))
}

/// Returns the bytes of all parts, of which `read` reads those that are separated.
fn fetch_parts(
    parts: Vec<ChainPart>,
    read: impl FnOnce(&[(ValuePointer, SeqNo)]) -> Result<Vec<Value>>,
) -> Result<Vec<Value>> {
    let separated = |part: &ChainPart| match part {
        ChainPart::Separated(pointer, seqno) => Some((*pointer, *seqno)),
        ChainPart::Inline(_) => None,
    };
    let wants: Vec<_> = parts.iter().filter_map(separated).collect();
    let mut read = if wants.is_empty() { Vec::new() } else { read(&wants)? }.into_iter();
    let value = |part| match part {
        ChainPart::Inline(value) => Value::from(value),
        ChainPart::Separated(..) => read.next().expect("each was read"),
    };
    Ok(parts.into_iter().map(value).collect())
}

/// Returns the error for an operand in a keyspace without an operator. Only a repair that knew no
/// settings makes such a keyspace.
fn no_operator(key: &[u8]) -> Error {
    let shown = key.escape_ascii();
    let what = format!("the key \"{shown}\" has operands, but its keyspace has no merge operator");
    Error::new(ErrorKind::WrongState, what)
        .advise("repair the database again, with keyspace options that name the operator")
}

/// Returns the fewest operands that do what `operands`, newest first, do: neighbours are combined
/// in pairs, and pairs of pairs, as far as the operator can. Before each stand the indices of those
/// that it is made of.
pub fn combined(
    merging: &Merging,
    key: &[u8],
    operands: Vec<Value>,
) -> Result<Vec<(Range<usize>, Value)>> {
    let alone = |(index, operand)| (index..index + 1, operand);
    let mut operands: Vec<_> = operands.into_iter().enumerate().map(alone).collect();
    loop {
        let before = operands.len();
        let mut fewer: Vec<(Range<usize>, Value)> = Vec::with_capacity(before.div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some((parts, newer)) = rest.next() {
            let Some((below, older)) = rest.next() else {
                fewer.push((parts, newer));
                break;
            };
            match merging.partial(key, &older, &newer)? {
                Some(one) => fewer.push((parts.start..below.end, Value::from(one))),
                None => fewer.extend([(parts, newer), (below, older)]),
            }
        }
        if fewer.len() == before {
            return Ok(fewer);
        }
        operands = fewer;
    }
}
