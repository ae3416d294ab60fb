//! Handles: the numbers that C holds in place of pointers.
//!
//! ```text
//! bit 46        set, so that a small number or null is no handle
//! bits 24..46   generation of the slot, from one on
//! bits  4..24   index of the slot
//! bits  0..4    zero, as in an aligned pointer
//! ```
//! All other bits are zero, so that a handle looks like an address of user space to runtimes that
//! tag pointers. A slot holds one object. When its handle is closed, the slot's generation is
//! incremented; a slot whose generations are used up is not used again. So no handle ever comes to
//! mean another object.
//!
//! A call *pins* the object: the object stays until the call is done, even if another thread closes
//! the handle meanwhile. Pinning takes no lock: it is one compare-and-swap on the slot's state, and
//! unpinning is one subtraction:
//!
//! ```text
//! bits 32..64   generation
//! bit  31       the handle is open; counts as one pin
//! bits  0..31   pins
//! ```
//!
//! Nothing here waits for another thread, not even taking and returning slots: a child made by
//! fork has none of its parent's threads and would wait for ever.

use crate::batch::BatchHandle;
use crate::cache::Cache;
use crate::changes::ChangesHandle;
use crate::comparator::ComparatorHandle;
use crate::db::Database;
use crate::env::Environment;
use crate::extra::KeyspaceHandle;
use crate::filter::FilterHandle;
use crate::ingest::SortedFileHandle;
use crate::iter::Iter;
use crate::options::{DbOptions, ReadSettings, WriteSettings};
use crate::snapshot::SnapshotHandle;
use crate::transaction::TransactionHandle;
use engine::{Error, ErrorKind, Result};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The number of slots that are allocated at a time.
const SLOTS_PER_CHUNK: usize = 1 << 10;
/// The most chunks of slots, so that at most 2^20 handles are open.
const CHUNKS: usize = 1 << 10;
/// The bit that is set in every handle.
const MARK: usize = 1 << 46;
const GENERATION_SHIFT: usize = 24;
const INDEX_SHIFT: usize = 4;
/// The last generation; a slot that has reached it is not used again.
const LAST_GENERATION: u64 = (1 << 22) - 1;
/// The bit of a slot's state that is set while the handle is open.
const OPEN: u64 = 1 << 31;
/// The mask of the number of pins in a slot's state.
const PINS: u64 = OPEN - 1;

/// A type of objects that C refers to by handles.
pub trait HandleKind: Sized + Send + Sync + 'static {
    /// The name of the type in error messages.
    const WORD: &'static str;
    /// Packs the object for a slot.
    fn pack(self) -> Object;
    /// Returns the object if it is of this kind.
    fn unpack(object: &Object) -> Option<&Self>;
}

macro_rules! kinds {
    ($($kind:ident: $word:literal),* $(,)?) => {
        /// An object of any kind.
        pub enum Object { $($kind(Box<$kind>)),* }

        $(impl HandleKind for $kind {
            const WORD: &'static str = $word;

            fn pack(self) -> Object {
                Object::$kind(Box::new(self))
            }

            fn unpack(object: &Object) -> Option<&Self> {
                match object {
                    Object::$kind(it) => Some(it),
                    _ => None,
                }
            }
        })*
    };
}

kinds! {
    Database: "the database",
    KeyspaceHandle: "the keyspace",
    SnapshotHandle: "the snapshot",
    TransactionHandle: "the transaction",
    ChangesHandle: "the changes",
    SortedFileHandle: "the sorted file",
    Iter: "the iterator",
    BatchHandle: "the batch",
    DbOptions: "the options",
    ReadSettings: "the read options",
    WriteSettings: "the write options",
    ComparatorHandle: "the comparator",
    FilterHandle: "the filter policy",
    Cache: "the cache",
    Environment: "the environment",
}

/// A kind whose common settings fit into the bits of its slot, which calls read without a pin.
pub trait Plain: HandleKind {
    /// The tag that distinguishes its bits from those of other kinds; not zero.
    const TAG: u64;
}

/// The position of the tag in the bits of a plain kind.
const TAG_SHIFT: u32 = 56;

/// A handle as C passes it, laid out like a pointer. May be null.
#[repr(transparent)]
pub struct Handle<T> {
    number: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

/// A slot for one object. It fills a cache line, because different threads use adjacent slots.
#[repr(align(64))]
struct HandleSlot {
    state: AtomicU64,
    /// The tag and the bits of a plain kind; zero for other kinds.
    bits: AtomicU64,
    object: UnsafeCell<Option<Object>>,
    /// While this slot is free: the index plus one of the free slot below it, as in `FREE`.
    below: AtomicU32,
}

// SAFETY: `object` changes only while no pin exists: by the thread that took the slot from the free
// list, before the handle is open, and by the thread that dropped the last pin, after the close.
unsafe impl Sync for HandleSlot {}

/// The chunks of slots. Each is null or a leaked array of `SLOTS_PER_CHUNK` slots.
static SLOTS: [AtomicPtr<HandleSlot>; CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS];
/// The stack of slots that were used before and are free again. The upper half counts its changes
/// (against ABA); the lower half is the index of the topmost slot plus one, or zero if it is empty.
static FREE: AtomicU64 = AtomicU64::new(0);
/// The index of the first slot that was never used.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The number of open handles.
static OPEN_HANDLES: AtomicUsize = AtomicUsize::new(0);

#[inline]
fn slot(index: usize) -> Option<&'static HandleSlot> {
    let chunk = SLOTS.get(index / SLOTS_PER_CHUNK)?.load(Ordering::Acquire);
    // SAFETY: a chunk has `SLOTS_PER_CHUNK` slots and is never freed.
    (!chunk.is_null()).then(|| unsafe { &*chunk.add(index % SLOTS_PER_CHUNK) })
}

/// Allocates a chunk of slots at `place` unless another thread has done so.
fn make_chunk(place: &AtomicPtr<HandleSlot>) {
    let empty = || HandleSlot {
        state: AtomicU64::new(1 << 32),
        bits: AtomicU64::new(0),
        object: UnsafeCell::new(None),
        below: AtomicU32::new(0),
    };
    let chunk: Box<[HandleSlot]> = std::iter::repeat_with(empty).take(SLOTS_PER_CHUNK).collect();
    let chunk = Box::into_raw(chunk);
    let was =
        place.compare_exchange(ptr::null_mut(), chunk.cast(), Ordering::AcqRel, Ordering::Acquire);
    if was.is_err() {
        // SAFETY: another thread was faster; no other thread has seen this chunk.
        drop(unsafe { Box::from_raw(chunk) });
    }
}

/// Takes a free slot, with its index. Returns `None` if all slots are in use or used up.
fn take_slot() -> Option<(&'static HandleSlot, usize)> {
    let taken = FREE.fetch_update(Ordering::Acquire, Ordering::Acquire, |free| {
        let top = slot((free as u32).checked_sub(1)? as usize)?;
        // If another thread takes `top` meanwhile, `below` may be wrong. The count in `FREE` has
        // changed then, so the exchange fails and is tried again.
        Some(counted(free, top.below.load(Ordering::Relaxed)))
    });
    if let Ok(free) = taken {
        let index = free as u32 as usize - 1;
        return Some((slot(index)?, index));
    }
    let index = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        ((next as usize) < CHUNKS * SLOTS_PER_CHUNK).then_some(next + 1)
    });
    let index = index.ok()? as usize;
    let place = &SLOTS[index / SLOTS_PER_CHUNK];
    if place.load(Ordering::Acquire).is_null() {
        make_chunk(place);
    }
    Some((slot(index)?, index))
}

#[cold]
fn none_free() -> Error {
    let most = CHUNKS * SLOTS_PER_CHUNK;
    let what = format!("no handle is free: at most {most} of all types can be open at a time");
    Error::new(ErrorKind::LimitReached, what).advise(
        "destroy what is not needed any more; `cleavedb_open_handles` says how many are open",
    )
}

/// Pushes a slot onto the stack of free slots.
fn return_slot(slot: &HandleSlot, index: usize) {
    let mut free = FREE.load(Ordering::Relaxed);
    loop {
        slot.below.store(free as u32, Ordering::Relaxed);
        let new = counted(free, index as u32 + 1);
        match FREE.compare_exchange_weak(free, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => free = now,
        }
    }
}

/// Returns the value of `FREE` that follows `free`, with slot `top` (index plus one) on top.
fn counted(free: u64, top: u32) -> u64 {
    (free & !u64::from(u32::MAX)).wrapping_add(1 << 32) | u64::from(top)
}

/// Returns how many handles are open. A program that closes all that it opens ends with zero.
pub fn open_handles() -> usize {
    OPEN_HANDLES.load(Ordering::Relaxed)
}

impl<T> Handle<T> {
    /// The null handle, which refers to no object.
    pub const NULL: Handle<T> = Handle { number: 0, kind: PhantomData };

    /// Returns true for the null pointer.
    pub fn is_null(self) -> bool {
        self.number == 0
    }

    /// Returns the handle as a number that can be stored.
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the handle that was stored as a number.
    pub fn from_number(number: usize) -> Self {
        Handle { number, kind: PhantomData }
    }

    fn place(self) -> Option<(&'static HandleSlot, usize, u64)> {
        let index = self.number >> INDEX_SHIFT & (CHUNKS * SLOTS_PER_CHUNK - 1);
        let generation = (self.number >> GENERATION_SHIFT) as u64 & LAST_GENERATION;
        let whole = MARK | (generation as usize) << GENERATION_SHIFT | index << INDEX_SHIFT;
        if whole != self.number {
            return None;
        }
        Some((slot(index)?, index, generation))
    }
}

impl<T: HandleKind> Handle<T> {
    /// Creates a handle on an object. Fails if no slot is free (2^20 handles are open).
    pub fn new(object: T) -> Result<Self> {
        Self::with_bits(object, 0)
    }

    fn with_bits(object: T, bits: u64) -> Result<Self> {
        let (slot, index) = take_slot().ok_or_else(none_free)?;
        // SAFETY: the slot is not open and was taken from the free list: no other thread uses it.
        unsafe { *slot.object.get() = Some(object.pack()) };
        // A thread that reads these bits through the slot's previous handle then sees the new
        // generation, and drops them.
        slot.bits.store(bits, Ordering::Release);
        let generation = slot.state.load(Ordering::Relaxed) >> 32;
        slot.state.store(generation << 32 | OPEN | 1, Ordering::Release);
        OPEN_HANDLES.fetch_add(1, Ordering::Relaxed);
        let number = MARK | (generation as usize) << GENERATION_SHIFT | index << INDEX_SHIFT;
        Ok(Handle { number, kind: PhantomData })
    }

    /// Pins the object, which stays for as long as the result is held. Fails if the handle is not
    /// open or of another kind.
    #[inline]
    pub fn pin(self) -> Result<Pinned<T>> {
        self.try_pin().ok_or_else(|| self.refusal())
    }

    #[inline]
    fn try_pin(self) -> Option<Pinned<T>> {
        let (slot, index, generation) = self.place()?;
        let mut state = slot.state.load(Ordering::Relaxed);
        loop {
            if state >> 32 != generation || state & OPEN == 0 || state & PINS == PINS {
                return None;
            }
            let pinned = slot.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match pinned {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        let pin = HandlePin { slot, index };
        // SAFETY: the slot is pinned: the object is not changed or dropped before `pin` is.
        let object = unsafe { &*slot.object.get() };
        let object: *const T = object.as_ref().and_then(T::unpack)?;
        Some(Pinned { object, pin })
    }

    #[cold]
    fn refusal(self) -> Error {
        let what = if self.is_null() { "a null pointer" } else { "no handle that is open" };
        Error::invalid_argument(format!("{} is {what}", T::WORD))
            .advise("pass what was created and is not destroyed yet")
    }

    /// Closes the handle; the object is dropped with its last pin. Does nothing if the handle is
    /// closed already or of another kind.
    pub fn close(self) {
        // With the pin the kind is known, and the slot can't be taken for another object.
        let Some(pinned) = self.try_pin() else { return };
        let closed = pinned.pin.slot.state.fetch_and(!OPEN, Ordering::AcqRel);
        if closed & OPEN != 0 {
            OPEN_HANDLES.fetch_sub(1, Ordering::Relaxed);
            drop(HandlePin { slot: pinned.pin.slot, index: pinned.pin.index });
        }
    }
}

impl<T: Plain> Handle<T> {
    /// Creates a handle on an object whose bits are all zero. Fails as [`Handle::new`] does.
    pub fn new_plain(object: T) -> Result<Self> {
        Self::with_bits(object, T::TAG << TAG_SHIFT)
    }

    /// Reads the bits without a pin, in three atomic loads and the lookup of the slot.
    #[inline]
    pub fn bits(self) -> Result<u64> {
        let read = || {
            let (slot, _, generation) = self.place()?;
            let is_open = |state: u64| state >> 32 == generation && state & OPEN != 0;
            if !is_open(slot.state.load(Ordering::Acquire)) {
                return None;
            }
            let bits = slot.bits.load(Ordering::Acquire);
            // The generation was the same before and after, so the bits are this object's.
            let same = is_open(slot.state.load(Ordering::Relaxed));
            (same && bits >> TAG_SHIFT == T::TAG).then_some(bits & !(T::TAG << TAG_SHIFT))
        };
        read().ok_or_else(|| self.refusal())
    }

    /// Sets the bits `which` if `on`, else clears them.
    pub fn set_bits(self, which: u64, on: bool) -> Result<()> {
        let pinned = self.pin()?;
        let bits = &pinned.pin.slot.bits;
        if on {
            bits.fetch_or(which, Ordering::AcqRel)
        } else {
            bits.fetch_and(!which, Ordering::AcqRel)
        };
        Ok(())
    }
}

/// A pin of a slot. The last pin that is dropped drops the object.
struct HandlePin {
    slot: &'static HandleSlot,
    index: usize,
}

impl Drop for HandlePin {
    #[inline]
    fn drop(&mut self) {
        let before = self.slot.state.fetch_sub(1, Ordering::Release);
        if before & PINS == 1 {
            self.vacate(before >> 32);
        }
    }
}

impl HandlePin {
    /// Drops the object, increments the generation and returns the slot to the free list.
    #[cold]
    fn vacate(&self, generation: u64) {
        std::sync::atomic::fence(Ordering::Acquire);
        // SAFETY: the last pin is gone and the handle is closed, so no thread can pin it again.
        let object = unsafe { (*self.slot.object.get()).take() };
        self.slot.state.store((generation + 1) << 32, Ordering::Release);
        if generation < LAST_GENERATION {
            return_slot(self.slot, self.index);
        }
        // Last, because this may close a database or call a destructor of C that creates handles.
        drop(object);
    }
}

/// A pinned object, which stays for as long as this is held.
pub struct Pinned<T> {
    object: *const T,
    pin: HandlePin,
}

impl<T> Deref for Pinned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the pin keeps the object.
        unsafe { &*self.object }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn cache(bytes: u64) -> Handle<Cache> {
        Handle::new(Cache { bytes }).unwrap()
    }

    #[test]
    fn what_has_ended_is_refused() {
        let handle = cache(7);
        assert_eq!(handle.pin().unwrap().bytes, 7);
        handle.close();
        handle.close();
        assert!(handle.pin().is_err());
        let next = cache(8);
        assert_ne!(handle.number(), next.number());
        assert!(handle.pin().is_err());
        handle.close();
        assert_eq!(next.pin().unwrap().bytes, 8);
        next.close();
    }

    #[test]
    fn what_is_no_handle_is_refused() {
        let open = cache(1);
        for number in
            [0, 1, MARK, MARK | 0xfff0, usize::MAX, open.number() + 1, &open as *const _ as usize]
        {
            let wrong = Handle::<Cache>::from_number(number);
            assert!(wrong.pin().is_err(), "{number:x}");
            wrong.close();
        }
        let other_kind = Handle::<Environment>::from_number(open.number());
        assert!(other_kind.pin().is_err());
        other_kind.close();
        assert_eq!(open.pin().unwrap().bytes, 1);
        open.close();
    }

    #[test]
    fn a_pin_outlives_the_handle() {
        let handle = cache(3);
        let pinned = handle.pin().unwrap();
        handle.close();
        assert!(handle.pin().is_err());
        assert_eq!(pinned.bytes, 3);
    }

    #[test]
    fn slots_go_from_thread_to_thread() {
        let rounds = if cfg!(miri) { 20 } else { 5000 };
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..rounds {
                        let mine: Vec<_> = (0..1 + round % 5)
                            .map(|n| cache(thread << 32 | round << 8 | n))
                            .collect();
                        for (n, handle) in mine.into_iter().enumerate() {
                            let expected = thread << 32 | round << 8 | n as u64;
                            assert_eq!(handle.pin().unwrap().bytes, expected);
                            handle.close();
                            assert!(handle.pin().is_err());
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn threads_may_close_what_others_use() {
        for _ in 0..200 {
            let handle = cache(5);
            let barrier = Barrier::new(3);
            std::thread::scope(|scope| {
                for closes in [false, false, true] {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        for _ in 0..50 {
                            if let Ok(pinned) = handle.pin() {
                                assert_eq!(pinned.bytes, 5);
                            }
                        }
                        if closes {
                            handle.close();
                        }
                    });
                }
            });
            assert!(handle.pin().is_err());
        }
    }
}
