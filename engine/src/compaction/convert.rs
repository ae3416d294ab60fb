//! Conversion: after the separation or the threshold of a keyspace has changed, brings the values
//! that are stored to where the settings say: a large value that is inline moves out, to a sorted
//! segment, and one in a segment that is small, or that nothing separates any more, moves into the
//! tree.
//!
//! A piece is a compaction of a few neighbouring tables within their level, as a reorganization is
//! (`reorganize.rs`), which moves about one segment's worth of values. Tables in which every value
//! is at home are in no piece.
//!
//! Crash cases are those of any compaction: segments, then tables, then their names are durable
//! before the one edit that replaces the inputs (I3). A crash before it leaves orphans, and one
//! after it the files that nothing names any more (I5). No state is kept of how far a conversion
//! has come: the tables say it (I4).

use crate::base::entry::{Payload, Slot};
use crate::base::error::{ErrorKind, Result};
use crate::base::iter::EntryIter;
use crate::base::key::{KeyOrder, Trailer};
use crate::base::pointer::{KeyspaceId, TableId};
use crate::base::value::Value;
use crate::compaction::job::CompactionReport;
use crate::compaction::picker::Pick;
use crate::compaction::piece_end::PieceEnd;
use crate::compaction::reorganize;
use crate::compaction::separate::{Separator, least_value_bytes};
use crate::read::fetch::Fetcher;
use crate::read::level_iter::ReadMode;
use crate::read::wants::Wants;
use crate::version::files::TableHandle;
use crate::version::job::JobResult;
use crate::version::levels::Levels;
use crate::version::runtime::Runtime;
use crate::version::snapshots::SeenSeqnos;
use crate::version::view::{KeyspaceState, View};
use std::sync::Arc;

/// The most values that are looked at together for their size.
const LOOK_VALUES: usize = 256;
/// The most bytes of records that are looked at together.
const LOOK_BYTES: u64 = 4 << 20;
/// The number of entries between two checks whether the database is closing.
const CLOSING_CHECK_ENTRIES: u32 = 4096;

/// What becomes of the value of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeDecision {
    /// It is where it belongs, or there is none.
    Stays,
    /// It is inline and belongs to a segment.
    MovesOut,
    /// It is in a segment, and moves into the tree if it belongs there, which its size says once it
    /// is read.
    MayMoveIn,
}

/// Decides where values of a keyspace belong by its present settings.
pub struct ValueHomes {
    keyspace: KeyspaceId,
    separator: Separator,
    is_encrypted: bool,
}

impl ValueHomes {
    /// Creates the decider for the present settings of `keyspace`.
    pub fn of(runtime: &Runtime, keyspace: &KeyspaceState) -> Self {
        ValueHomes {
            keyspace: keyspace.id,
            separator: Separator::new(keyspace.id, &keyspace.options()),
            is_encrypted: runtime.set.tables().identity.is_encrypted(),
        }
    }

    /// Decides about an entry.
    pub fn decide(&self, key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<HomeDecision> {
        let payload = Payload::decode(trailer.kind()?, payload)?;
        Ok(match payload.slot {
            Slot::Inline(value) => {
                let moves = !self.is_inline(value.len()) && !payload.is_expired_for_all();
                if moves { HomeDecision::MovesOut } else { HomeDecision::Stays }
            }
            Slot::Pointer(pointer) => {
                let value = (payload.deadline, pointer);
                let (keyspace, seqno) = (self.keyspace, trailer.seqno());
                match self.is_inline(least_value_bytes(
                    keyspace,
                    key,
                    seqno,
                    value,
                    self.is_encrypted,
                )) {
                    true => HomeDecision::MayMoveIn,
                    false => HomeDecision::Stays,
                }
            }
            Slot::Delete => HomeDecision::Stays,
        })
    }

    /// Returns what separates the values that move out.
    pub fn separator(&self) -> &Separator {
        &self.separator
    }

    /// Returns true if a value of `bytes` bytes belongs into the tree.
    pub fn is_inline(&self, bytes: usize) -> bool {
        !self.separator.separates(bytes)
    }

    /// Returns true if every value of `table`, whose pointers `view` resolves, is at home. Reads
    /// the table up to the first that is not, and those of its separated values whose size their
    /// pointers leave open: compressed ones that may be below the threshold.
    pub fn have_all(
        &self,
        runtime: &Runtime,
        view: &Arc<View>,
        table: &Arc<TableHandle>,
    ) -> Result<bool> {
        let nothing_is_separated = self.is_inline(usize::MAX);
        if nothing_is_separated {
            // I4: the counts of a table are exact.
            return Ok(table.meta.summary.segments.is_empty());
        }
        // These reads have counters of their own, because they are not a user's reads.
        let fetcher = Fetcher::new(runtime.env.reader.clone(), Arc::default());
        let (mut wants, mut bytes) = (Wants::default(), 0);
        let mut entries = ReadMode::FullScan.iter(&*table.table()?);
        let mut until_check = CLOSING_CHECK_ENTRIES;
        entries.seek_to_first()?;
        while entries.valid() {
            let (key, trailer, payload) =
                (entries.user_key(), entries.trailer(), entries.payload());
            match self.decide(key, trailer, payload)? {
                HomeDecision::Stays => {}
                HomeDecision::MovesOut => return Ok(false),
                HomeDecision::MayMoveIn => {
                    if let Slot::Pointer(pointer) = Slot::decode(trailer.kind()?, payload)? {
                        bytes += u64::from(pointer.length);
                        wants.add(pointer, key, trailer.seqno());
                    }
                }
            }
            if wants.len() >= LOOK_VALUES || bytes >= LOOK_BYTES {
                bytes = 0;
                if self.one_is_small(&fetcher, view, std::mem::take(&mut wants))? {
                    return Ok(false);
                }
            }
            until_check -= 1;
            if until_check == 0 {
                runtime.check_closing()?;
                until_check = CLOSING_CHECK_ENTRIES;
            }
            entries.next()?;
        }
        Ok(!self.one_is_small(&fetcher, view, wants)?)
    }

    /// Returns true if one of these values belongs into the tree.
    fn one_is_small(&self, fetcher: &Fetcher, view: &Arc<View>, wants: Wants) -> Result<bool> {
        let count = wants.len();
        let mut fetching = fetcher.many(view, wants);
        for index in 0..count {
            match fetching.take(index) {
                Ok(value) if self.is_inline(value.len()) => return Ok(true),
                // One that is damaged, or garbage that a reader no longer sees, stays.
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// What a conversion has done, or a compaction that brings values home (`homing.rs`).
#[derive(Debug, Default, Clone, Copy)]
pub struct MovedValues {
    /// The number of values that moved from segments into the tree.
    pub moved_in: u64,
    /// The number of values that moved from the tree to a segment.
    pub moved_out: u64,
    /// The number of values that are damaged, and stay where they are.
    pub damaged: u64,
    /// The bytes of the records that were read.
    pub bytes_read: u64,
}

/// A piece of a conversion at work: it moves values until they have so many bytes.
pub struct Converting {
    homes: ValueHomes,
    /// Where it ends.
    pub end: PieceEnd,
    /// The bytes that one piece moves.
    most_bytes: u64,
    /// The bytes of records that may move, and were not read yet.
    asked: u64,
    /// What was done.
    pub moved: MovedValues,
}

impl Converting {
    /// Creates a piece that moves about `most_bytes`.
    pub fn new(homes: ValueHomes, order: KeyOrder, most_bytes: u64) -> Self {
        let (end, moved) = (PieceEnd::new(order, most_bytes), MovedValues::default());
        Converting { homes, end, most_bytes, asked: 0, moved }
    }

    /// Decides about the next entry.
    pub fn decide(&mut self, key: &[u8], trailer: Trailer, payload: &[u8]) -> Result<HomeDecision> {
        if self.end.until().is_some() {
            return Ok(HomeDecision::Stays);
        }
        let decision = self.homes.decide(key, trailer, payload)?;
        if decision == HomeDecision::MovesOut {
            self.moved.moved_out += 1;
            self.end.moves(payload.len() as u64);
        }
        Ok(decision)
    }

    /// Notes that a record of `bytes` bytes is to be read. Returns true if what waits should be
    /// read now, because it may be all that this piece moves.
    pub fn ask(&mut self, bytes: u64) -> bool {
        self.moved.bytes_read += bytes;
        self.asked += bytes;
        // A value that turns out to be large moves nothing, so what is left shrinks only when
        // records were read. It is passed by an eighth rather than reading them one by one.
        self.asked >= self.end.left().max(self.most_bytes / 8)
    }

    /// Notes that all records that were asked for are being read.
    pub fn begin_reading(&mut self) {
        self.asked = 0;
    }

    /// Returns a value that was read if it moves into the tree.
    pub fn inline(&mut self, read: Result<Value>) -> Result<Option<Value>> {
        match read {
            Ok(value) if self.homes.is_inline(value.len()) => {
                self.moved.moved_in += 1;
                self.end.moves(value.len() as u64);
                Ok(Some(value))
            }
            Ok(_) => Ok(None),
            // I3: as in any compaction, its pointer stays, and reads of it say that it is damaged.
            Err(error) if error.kind() == ErrorKind::Corruption => {
                self.moved.damaged += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the separator of values that move out.
    pub fn separator(&self) -> &Separator {
        self.homes.separator()
    }
}

/// Returns the bytes of all values of a table, wherever they are.
pub fn all_value_bytes(table: &Arc<TableHandle>) -> u64 {
    table.meta.summary.payload_bytes.saturating_add(table.meta.summary.value_bytes())
}

/// Picks the first of the tables `wanted`, which were neighbours in `level`, and those that are
/// still its neighbours; `None` if the first is gone.
pub fn pick(levels: &Levels, level: usize, wanted: &[TableId]) -> Option<Pick> {
    let tables = levels.level(level).iter();
    let tables = tables.skip_while(|table| Some(&table.meta.id) != wanted.first());
    let kept = tables.zip(wanted).take_while(|(table, wanted)| table.meta.id == **wanted);
    let inputs: Vec<_> = kept.map(|(table, _)| table.clone()).collect();
    (!inputs.is_empty()).then(|| Pick::in_place(level, inputs))
}

/// Runs `pick`, which was made for the tables `levels` of `keyspace`, and moves about `most_bytes`
/// of values.
pub fn run(
    runtime: &Runtime,
    keyspace: &Arc<KeyspaceState>,
    levels: &Levels,
    pick: &Pick,
    seen: SeenSeqnos,
    most_bytes: u64,
) -> JobResult<CompactionReport> {
    let homes = ValueHomes::of(runtime, keyspace);
    let converting = Converting::new(homes, keyspace.order.clone(), most_bytes);
    let part = reorganize::MovedPart::Misplaced(converting);
    reorganize::rewrite(runtime, keyspace, levels, pick, seen, part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::compression::Codec;
    use crate::base::expiry::Deadline;
    use crate::base::pointer::{SegmentId, ValuePointer};
    use crate::compaction::tests::world::JobWorld;
    use crate::segment::RecordInput;
    use crate::version::settings::Separation;

    const KEY: &[u8] = b"key";
    const SEQNO: u64 = 300;

    fn homes(separation: Separation, separation_threshold: usize) -> ValueHomes {
        let world = JobWorld::new(1 << 20);
        let options = world.keyspace.options().as_ref().clone();
        let options = crate::version::settings::KeyspaceOptions {
            separation,
            separation_threshold,
            ..options
        };
        world.keyspace.set_options(options);
        ValueHomes::of(&world.runtime, &world.keyspace)
    }

    fn decide(homes: &ValueHomes, payload: Payload<'_>) -> HomeDecision {
        let mut stored = Vec::new();
        payload.encode(&mut stored);
        homes.decide(KEY, Trailer::new(SEQNO, payload.kind()), &stored).unwrap()
    }

    /// Returns the pointer to the record of a value of so many bytes that is not compressed.
    fn pointer(bytes: usize, deadline: Option<Deadline>) -> Slot<'static> {
        let value = vec![7; bytes];
        let record = RecordInput { deadline, ..RecordInput::put(KeyspaceId(1), KEY, &value) };
        let length = record.record_bytes(SEQNO) as u32;
        Slot::Pointer(ValuePointer { segment: SegmentId(1), offset: 64, length })
    }

    #[test]
    fn values_belong_where_the_settings_say() {
        use HomeDecision::{MayMoveIn, MovesOut, Stays};
        use Separation::{AtFlush, AtWrite, Off};
        let rows = [
            // The policy and threshold, the bytes of a value, and what becomes of it if it is
            // inline and if it is in a segment.
            (Off, 100, 1 << 20, Stays, MayMoveIn),
            (Off, 100, 0, Stays, MayMoveIn),
            (AtWrite, 100, 99, Stays, MayMoveIn),
            (AtWrite, 100, 100, MovesOut, Stays),
            (AtFlush, 100, 99, Stays, MayMoveIn),
            (AtFlush, 100, 100, MovesOut, Stays),
            (AtFlush, 1 << 14, (1 << 14) - 1, Stays, MayMoveIn),
            (AtFlush, 1 << 14, 1 << 14, MovesOut, Stays),
            (AtWrite, 0, 0, MovesOut, Stays),
        ];
        for (separation, threshold, bytes, inline, separated) in rows {
            let homes = homes(separation, threshold);
            let place = format!("{separation:?} {threshold}: {bytes} bytes");
            let value = vec![7; bytes];
            for deadline in [None, Some(Deadline(1 << 40))] {
                for is_merge in [false, true] {
                    let deadline = deadline.filter(|_| !is_merge);
                    let of = |slot| Payload { is_merge, deadline, slot };
                    assert_eq!(decide(&homes, of(Slot::Inline(&value))), inline, "{place}");
                    let found = decide(&homes, of(pointer(bytes, deadline)));
                    assert_eq!(found, separated, "{place}");
                }
            }
        }
        let all = homes(AtWrite, 0);
        assert_eq!(decide(&all, Slot::Delete.into()), Stays, "there is no value");
        assert_eq!(decide(&all, Payload::EXPIRED), Stays, "nobody sees it");
    }

    /// A compressed value has at least as many bytes as its record would have without compression.
    #[test]
    fn a_pointer_never_promises_more_bytes_than_the_value_has() {
        for raw_len in 1..1500_usize {
            for saved in [raw_len / 8 + 1, raw_len / 2] {
                let Some(stored) = raw_len.checked_sub(saved) else { continue };
                let value = vec![7; stored];
                let bare = RecordInput::put(KeyspaceId(1), KEY, b"");
                let (codec, raw_len) = (Codec::Lz4, raw_len as u32);
                let record = RecordInput { codec, raw_len, value: &value, ..bare };
                let bytes = record.record_bytes(SEQNO);
                let least = bare.least_value_bytes(SEQNO, bytes, false);
                assert!(least <= raw_len as usize, "{least} for {raw_len} stored in {stored}");
            }
            // One that was ingested has the number 0 in its record.
            let (value, bare) = (vec![7; raw_len], RecordInput::put(KeyspaceId(1), KEY, b""));
            let bytes = RecordInput::put(KeyspaceId(1), KEY, &value).record_bytes(0);
            assert!(bare.least_value_bytes(SEQNO, bytes, false) <= raw_len);
        }
    }

    #[test]
    fn a_piece_ends_between_two_keys_once_it_has_moved_enough() {
        let homes = homes(Separation::AtFlush, 100);
        let mut piece = Converting::new(homes, KeyOrder::Bytewise, 1000);
        let mut moved = Vec::new();
        for (key, bytes) in [("a", 600), ("b", 99), ("c", 350), ("c", 300), ("c", 200), ("d", 500)]
        {
            let ends = piece.end.ends_before(key.as_bytes());
            let payload = Payload::from(Slot::Inline(&[7; 600][..bytes]));
            let mut stored = Vec::new();
            payload.encode(&mut stored);
            let trailer = Trailer::new(SEQNO, payload.kind());
            let decision = piece.decide(key.as_bytes(), trailer, &stored).unwrap();
            moved.push((ends, decision == HomeDecision::MovesOut));
        }
        let expected = [(false, true), (false, false), (false, true), (false, true), (false, true)];
        assert_eq!(moved[..5], expected);
        assert_eq!(moved[5], (true, false), "it belongs to the next piece");
        assert_eq!(piece.end.until().map(Vec::as_slice), Some(&b"c"[..]));
        assert!(!piece.end.ends_before(b"e"), "it ends once");
        assert_eq!(piece.moved.moved_out, 4);
    }
}
