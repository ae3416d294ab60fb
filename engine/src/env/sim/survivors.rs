//! Decides which unsynced operations a power failure leaves.

use super::content::Content;
use super::dice::Dice;
use super::disk::{Disk, FileId, FileOp, NameOp};
use std::collections::BTreeMap;

/// The unit in bytes that a device writes whole or not at all.
const SECTOR: u64 = 512;

/// The rule by which unsynced operations survive a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survivors {
    /// No operation survives.
    LoseAll,
    /// All operations survive, as when the process is killed: nothing is lost, but nothing is
    /// synced either, so a later power failure can still lose it.
    KeepAll,
    /// The first operations in order over the whole disk survive; how many is drawn.
    Prefix,
    /// The first operations survive, this many.
    PrefixOf(usize),
    /// All operations but this one, counted from 0, survive.
    AllBut(usize),
    /// All operations survive, but the last write only with some of its sectors, which are drawn.
    TornLast,
    /// Each operation survives, is lost or is torn by a draw of its own. Order holds neither across
    /// files nor within one, a file's length may survive without its bytes (they read as zeroes or
    /// noise), and a name without its file's content or the other way round.
    Random,
}

/// The fate of one operation in a power failure.
enum OperationFate {
    Kept,
    Lost,
    /// Only those sectors of a write survive that a draw selects.
    Torn,
    /// Only the new length of a write survives; the new bytes read as zeroes.
    OnlyLength,
    /// Only the new length of a write survives; the new bytes read as noise, as if they were old
    /// bytes of the device.
    Noise,
}

/// An operation that is not synced.
enum Unsynced {
    File(FileId, FileOp),
    Name(NameOp),
}

/// Applies a power failure (or, for [`Survivors::KeepAll`], the end of all processes).
pub(super) fn survive(disk: &mut Disk, survivors: Survivors, dice: &mut Dice) {
    if survivors == Survivors::KeepAll {
        return disk.close_all();
    }
    let unsynced = in_order(disk);
    let fates = fates(&unsynced, survivors, dice);
    assert_eq!(fates.len(), unsynced.len(), "each change survives or not");
    let mut names = disk.durable_names.clone();
    for (op, fate) in unsynced.iter().zip(fates) {
        match (op, fate) {
            (_, OperationFate::Lost) => {}
            (Unsynced::Name(op), _) => op.apply(&mut names),
            (Unsynced::File(file, op), fate) => {
                apply(op, &fate, &mut disk.file(*file).durable, dice);
            }
        }
    }
    disk.become_durable(names);
    assert_eq!(self::unsynced(disk), 0, "what a restart finds is durable");
}

/// Returns the number of operations that are not synced.
pub(super) fn unsynced(disk: &Disk) -> usize {
    disk.files.values().map(|file| file.unsynced.len()).sum::<usize>() + disk.unsynced_names.len()
}

fn in_order(disk: &Disk) -> Vec<Unsynced> {
    let mut ops = BTreeMap::new();
    for (id, file) in &disk.files {
        ops.extend(file.unsynced.iter().map(|(n, op)| (*n, Unsynced::File(*id, op.clone()))));
    }
    ops.extend(disk.unsynced_names.iter().map(|(n, op)| (*n, Unsynced::Name(op.clone()))));
    assert_eq!(ops.len(), unsynced(disk), "each change has a number of its own");
    ops.into_values().collect()
}

fn fates(unsynced: &[Unsynced], survivors: Survivors, dice: &mut Dice) -> Vec<OperationFate> {
    let count = unsynced.len();
    let by_index = |keep: &dyn Fn(usize) -> bool| {
        (0..count)
            .map(|index| if keep(index) { OperationFate::Kept } else { OperationFate::Lost })
            .collect()
    };
    match survivors {
        Survivors::LoseAll => by_index(&|_| false),
        Survivors::KeepAll => by_index(&|_| true),
        Survivors::Prefix => {
            let kept = dice.below(count + 1);
            by_index(&|index| index < kept)
        }
        Survivors::PrefixOf(kept) => by_index(&|index| index < kept),
        Survivors::AllBut(lost) => by_index(&|index| index != lost),
        Survivors::TornLast => {
            let mut fates: Vec<OperationFate> = by_index(&|_| true);
            if let Some(last) = unsynced.iter().rposition(is_write) {
                fates[last] = OperationFate::Torn;
            }
            fates
        }
        Survivors::Random => {
            // The share that survives differs from crash to crash: nearly all, half, nearly
            // nothing.
            let lost_in_16 = 1 + dice.below(15);
            unsynced.iter().map(|op| random_fate(op, lost_in_16, dice)).collect()
        }
    }
}

fn is_write(op: &Unsynced) -> bool {
    matches!(op, Unsynced::File(_, FileOp::Write { .. }))
}

fn random_fate(op: &Unsynced, lost_in_16: usize, dice: &mut Dice) -> OperationFate {
    if dice.below(16) >= lost_in_16 {
        return OperationFate::Kept;
    }
    if !is_write(op) {
        return OperationFate::Lost;
    }
    match dice.below(8) {
        0..4 => OperationFate::Lost,
        4..6 => OperationFate::Torn,
        6 => OperationFate::OnlyLength,
        _ => OperationFate::Noise,
    }
}

fn apply(op: &FileOp, fate: &OperationFate, content: &mut Content, dice: &mut Dice) {
    let FileOp::Write { offset, bytes } = op else {
        return op.apply(content);
    };
    let (old_len, end) = (content.len(), offset + bytes.len() as u64);
    match fate {
        OperationFate::Kept => content.write(*offset, bytes),
        OperationFate::Lost => {}
        OperationFate::Torn => tear(*offset, bytes, content, dice),
        OperationFate::OnlyLength => content.extend(end),
        OperationFate::Noise => {
            content.extend(end);
            let noise: Vec<u8> =
                (old_len.max(*offset)..end).map(|_| dice.next_u64() as u8).collect();
            content.write(end - noise.len() as u64, &noise);
        }
    }
}

/// Writes some of the sectors: the first ones, or any.
fn tear(offset: u64, bytes: &[u8], content: &mut Content, dice: &mut Dice) {
    let end = offset + bytes.len() as u64;
    let sectors = (end.div_ceil(SECTOR) - offset / SECTOR) as usize;
    let in_order = dice.one_in(2);
    let prefix = dice.below(sectors.max(1));
    if !in_order && dice.one_in(2) {
        content.extend(end);
    }
    for index in 0..sectors {
        if if in_order { index < prefix } else { dice.one_in(2) } {
            let start = ((offset / SECTOR + index as u64) * SECTOR).max(offset);
            let stop = ((offset / SECTOR + index as u64 + 1) * SECTOR).min(end);
            content.write(start, &bytes[(start - offset) as usize..(stop - offset) as usize]);
        }
    }
}
