//! Verification of a whole database: every checksum, order, bound, count and pointer.

use crate::base::entry::Slot;
use crate::base::error::{Error, ErrorKind, IoContext, Result};
use crate::base::key::SeqNo;
use crate::base::pointer::{SegmentId, ValuePointer};
use crate::db::Db;
use crate::db::long_pass::{LongPass, PassOptions, PassProgress};
use crate::read::get::{Lookup, get};
use crate::read::operands::ChainReader;
use crate::segment::{ScanMode, ScanStart, read_head, scan};
use crate::version::expiry::ReadPoint;
use crate::version::files::{RelocationHandle, TableHandle};
use crate::version::references::check_all;
use crate::version::resolve::Resolved;
use crate::version::view::View;
use crate::version::{LiveSegment, Version};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Problems beyond this number are only counted, because one broken file can cause many.
const MAX_LISTED: usize = 100;
/// Number of places that are remembered so that each problem counts once. Beyond it, one may count
/// twice.
const MAX_PLACES: usize = 1 << 16;

/// A problem that a check found, or something that it could not verify.
///
/// ```
/// # let dir = cleavedb::doc_dir("finding");
/// let db = cleavedb::open(&dir)?;
/// for finding in db.check()?.problems {
///     eprintln!("{finding}: {:?}", finding.error.advice());
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The problem, with file and offset.
    pub error: Error,
    /// The keyspace concerned; `None` if there are several, or it is not known.
    pub keyspace: Option<String>,
    /// The key whose value is concerned; `None` if there are several, or it is not known.
    pub key: Option<Vec<u8>>,
}

impl From<Error> for Finding {
    /// Makes a finding that names neither keyspace nor key.
    fn from(error: Error) -> Self {
        Finding { error, keyspace: None, key: None }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if let Some(keyspace) = &self.keyspace {
            write!(f, "; in keyspace {keyspace:?}")?;
        }
        match &self.key {
            Some(key) => write!(f, ", key \"{}\"", key.escape_ascii()),
            None => Ok(()),
        }
    }
}

/// The result of a check.
///
/// ```
/// # let dir = cleavedb::doc_dir("check");
/// let db = cleavedb::open(&dir)?;
/// let report = db.check()?;
/// assert!(report.is_clean());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Entries of tables read.
    pub entries: u64,
    /// Records of segments read.
    pub records: u64,
    /// Pointers followed to their records.
    pub pointers: u64,
    /// Entries of relocations followed to their records.
    pub moves: u64,
    /// The first hundred problems. Each place in a file counts once, however many pointers lead to
    /// it.
    pub problems: Vec<Finding>,
    /// Number of problems.
    pub problem_count: u64,
    /// Places that this build can't verify, because it lacks a codec or does not support a format:
    /// they may be sound or damaged. At most the first hundred, each place once.
    pub unverified: Vec<Finding>,
    /// Number of places that could not be verified.
    pub unverified_count: u64,
    places: BTreeSet<(PathBuf, u64)>,
}

impl CheckReport {
    /// Returns true if everything was verified and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0 && self.unverified_count == 0
    }

    /// Returns true if there are problems.
    pub fn is_damaged(&self) -> bool {
        self.problem_count > 0
    }

    fn note(&mut self, outcome: Result<()>) {
        self.note_of(outcome, None, None);
    }

    fn note_of(&mut self, outcome: Result<()>, keyspace: Option<&str>, key: Option<&[u8]>) {
        let Err(error) = outcome else { return };
        if let (Some(file), Some(offset)) = (error.file(), error.offset())
            && self.places.len() < MAX_PLACES
            && !self.places.insert((file.to_path_buf(), offset))
        {
            return;
        }
        let (list, count) = match error.kind() {
            ErrorKind::Unsupported => (&mut self.unverified, &mut self.unverified_count),
            _ => (&mut self.problems, &mut self.problem_count),
        };
        *count += 1;
        if list.len() < MAX_LISTED {
            let (keyspace, key) = (keyspace.map(str::to_owned), key.map(<[u8]>::to_vec));
            list.push(Finding { error, keyspace, key });
        }
    }
}

/// The options of [`Db::check_with`]. New ones may be added in any release, so they are set by
/// chained calls.
///
/// ```
/// # let db = cleavedb::open(cleavedb::doc_dir("check-options"))?;
/// use cleavedb::CheckOptions;
/// let gently = CheckOptions::new().bytes_per_second(50 << 20);
/// assert!(db.check_with(&gently)?.is_clean());
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    pass: PassOptions,
}

impl CheckOptions {
    /// Returns the defaults: reads as fast as it can.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many bytes per second are read at most, so that a check of a database in use leaves
    /// the device to others.
    #[must_use]
    pub fn bytes_per_second(mut self, rate: u64) -> Self {
        self.pass.bytes_per_second = Some(rate);
        self
    }

    /// Has `tell` called as the check goes on, on the thread that makes it.
    #[must_use]
    pub fn on_progress(mut self, tell: impl Fn(PassProgress) + Send + Sync + 'static) -> Self {
        self.pass.on_progress = Some(Arc::new(tell));
        self
    }
}

/// The bytes after which a check looks at its bound and tells how far it is.
const STEP_BYTES: u64 = 256 << 10;

/// A check under way: what it has found, and how fast it may go.
struct Checking {
    report: CheckReport,
    pass: LongPass,
    /// The bytes read that the pass was not told of yet.
    untold: u64,
}

impl Checking {
    /// Counts a file. Fails if the database closes: then the files that are left may go.
    fn begin_file(&mut self, bytes: u64) -> Result<()> {
        self.pass.check_closing()?;
        self.report.files += 1;
        self.report.bytes += bytes;
        Ok(())
    }

    /// Notes that so many bytes were read. Fails if the database closes, as for a file.
    fn read(&mut self, bytes: u64) -> Result<()> {
        self.untold += bytes;
        if self.untold >= STEP_BYTES {
            self.pass.advance(std::mem::take(&mut self.untold));
            self.pass.check_closing()?;
        }
        Ok(())
    }
}

impl Db {
    /// Reads every file of the database and verifies all there is to verify. Collects problems
    /// rather than stopping at the first; an error means that the check itself was impossible.
    ///
    /// Costs a read of every file, and one read for each separated value and each relocated one.
    /// Writers and readers go on meanwhile.
    ///
    /// Fails with [`ErrorKind::Closed`] once the database was closed.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-check"))?;
    /// let report = db.check()?;
    /// for finding in report.problems.iter().chain(&report.unverified) {
    ///     println!("{finding}");
    /// }
    /// assert!(report.is_clean() && !report.is_damaged());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(&CheckOptions::default())
    }

    /// Verifies everything as [`Db::check`] does, with options: [`CheckOptions`] has an example.
    pub fn check_with(&self, options: &CheckOptions) -> Result<CheckReport> {
        self.core.check_open()?;
        options.pass.check()?;
        // The views hold every file they name while it is read.
        let states = self.core.states();
        let views: Vec<_> = states.iter().map(|state| (state.name.clone(), state.view())).collect();
        // The sequence numbers are taken after the views, so they include those of every reader
        // that may still need a record of these views.
        let mut readers = self.core.snapshots.list();
        if self.core.follower.is_some() {
            // I6: the snapshots of a follower read the views that they were taken with.
            readers.clear();
        }
        readers.push(self.core.snapshots.visible());
        let all_bytes = bytes_to_check(&self.core.set.current());
        let pass =
            LongPass::new(&self.core.env, &options.pass, all_bytes).while_open(&self.core.runtime);
        let mut checking = Checking { report: CheckReport::default(), pass, untold: 0 };
        for (name, view) in &views {
            let name = Some(name.as_str());
            checking.report.note_of(view.levels.check(), name, None);
            for (_, table) in view.levels.tables() {
                let outcome = check_table(view, name, table, &readers, &mut checking);
                checking.report.note_of(outcome, name, None);
            }
        }
        let version = self.core.set.current();
        checking.report.note(check_uses(&version));
        checking.report.note(check_all(&version));
        for (&id, live) in version.segments.iter() {
            let outcome = check_segment(self, id, live, &mut checking);
            checking.report.note(outcome);
        }
        for relocation in version.relocations.values() {
            let outcome = check_relocation(&version, relocation, &mut checking);
            checking.report.note(outcome);
        }
        checking.pass.advance(checking.untold);
        // Of a database that was closed, files may be gone: what was noted is no damage.
        self.core.check_open()?;
        for finding in &checking.report.problems {
            if self.core.has_moved(&finding.error, version.number)? {
                return Err(self.core.lost(finding.error.clone(), version.number));
            }
        }
        Ok(checking.report)
    }
}

/// Returns about how many bytes a check of this version reads: each file once, and the values that
/// tables refer to once more, in their order.
fn bytes_to_check(version: &Version) -> u64 {
    let segments = version.segments.keys().chain(version.relocations.keys());
    let referenced = segments.map(|id| version.uses.of(*id).bytes);
    referenced.fold(version.bytes_up_to(u64::MAX), u64::saturating_add)
}

/// Verifies a table and follows its pointers; `readers` are the sequence numbers of snapshots and
/// of the present.
fn check_table(
    view: &Arc<View>,
    keyspace: Option<&str>,
    handle: &TableHandle,
    readers: &[SeqNo],
    checking: &mut Checking,
) -> Result<()> {
    checking.begin_file(handle.meta.bytes)?;
    let mut lost = Vec::new();
    let (mut entries, mut pointers) = (0, 0);
    let verified = handle.table()?.verify(|user_key, trailer, payload| {
        entries += 1;
        checking.read((user_key.len() + payload.len()) as u64)?;
        if let Slot::Pointer(pointer) = Slot::decode(trailer.kind()?, payload)? {
            pointers += 1;
            checking.read(pointer.length.into())?;
            // A lost value must not keep the others from being checked.
            let outcome = check_pointer(view, pointer, user_key, trailer.seqno(), readers);
            if outcome.is_err() && lost.len() < MAX_PLACES {
                lost.push((outcome, user_key.to_vec()));
            }
        }
        Ok(())
    });
    checking.report.entries += entries;
    checking.report.pointers += pointers;
    for (outcome, key) in lost {
        checking.report.note_of(outcome, keyspace, Some(&key));
    }
    verified
}

/// Follows a pointer to its record. A record that was given up as garbage is fine if no reader can
/// see its entry.
fn check_pointer(
    view: &Arc<View>,
    pointer: ValuePointer,
    user_key: &[u8],
    seqno: SeqNo,
    readers: &[SeqNo],
) -> Result<()> {
    let resolved = view.resolve(pointer)?;
    if let Resolved::Gone(_) = &resolved
        && !is_visible(view, user_key, seqno, readers)?
    {
        return Ok(());
    }
    let (handle, at) = resolved.place(pointer)?;
    handle.segment.read_value(at, view.keyspace, user_key, seqno).map(|_| ())
}

/// Returns true if a read at one of `readers` sees this version of the key, or merges it.
fn is_visible(view: &Arc<View>, user_key: &[u8], seqno: SeqNo, readers: &[SeqNo]) -> Result<bool> {
    for &reader in readers.iter().filter(|reader| **reader >= seqno) {
        // Without the update table, so that what it says is not taken for granted.
        // Nothing is taken for expired: until compaction has dropped an expired entry, its value is
        // kept.
        let found = get(view, user_key, ReadPoint::timeless(reader), false, None)?;
        let is_seen = match found {
            Lookup::Pointer(_, seen) => seen == seqno,
            Lookup::Merge(newest) => {
                let reader = ChainReader { view, own: None, seqno: newest, fill_cache: false };
                reader.has_in_chain(user_key, newest, seqno)?
            }
            Lookup::Inline(..) | Lookup::Nothing => false,
        };
        if is_seen {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Verifies a relocation's file, and that each entry leads to a record, unless that was given up
/// since.
fn check_relocation(
    version: &Version,
    relocation: &RelocationHandle,
    checking: &mut Checking,
) -> Result<()> {
    let Some(table) = relocation.table()? else { return Ok(()) };
    checking.begin_file(relocation.meta.bytes)?;
    checking.read(relocation.meta.bytes)?;
    let report = &mut checking.report;
    let mut lost = Vec::new();
    table.for_each(|_, segment, offset, length| {
        let pointer = ValuePointer { segment, offset, length };
        lost.extend(check_target(version, pointer).err());
        Ok(())
    })?;
    report.moves += relocation.meta.entries;
    lost.into_iter().for_each(|error| report.note(Err(error)));
    Ok(())
}

fn check_target(version: &Version, at: ValuePointer) -> Result<()> {
    let unknown = || Error::corruption(format!("segment {} is not live", at.segment));
    let live = version.segments.get(&at.segment).ok_or_else(unknown)?;
    if live.is_punched(at.offset, at.length.into()) {
        return Ok(());
    }
    if live.sealed.is_none_or(|sealed| at.offset.saturating_add(at.length.into()) > sealed) {
        let error = Error::corruption("a relocation leads behind the end of the segment");
        return Err(error.in_file(live.handle.path()).at(at.offset));
    }
    live.handle.segment.keyspace_of(at).map(|_| ())
}

/// Checks the sums that decide which segments are dead against the tables.
fn check_uses(version: &Version) -> Result<()> {
    let mut sums = crate::version::garbage::SegmentUses::default();
    for keyspace in version.keyspaces.values() {
        for (_, table) in keyspace.levels.tables() {
            sums.add(&table.meta.summary.segments);
        }
    }
    if sums == *version.uses {
        return Ok(());
    }
    Err(Error::corruption("the sums of references into segments differ from the tables'"))
}

fn check_segment(
    db: &Db,
    id: SegmentId,
    live: &LiveSegment,
    checking: &mut Checking,
) -> Result<()> {
    let Some(length) = live.sealed else {
        // The segment is being written; its pointers were followed already.
        return Ok(());
    };
    let segment = &live.handle.segment;
    let path = segment.path();
    let file = db.core.env.fs.open(path).doing("open", path)?;
    checking.begin_file(length)?;
    let head = read_head(&*file, path, segment.database(), id)?
        .ok_or_else(|| Error::corruption("the segment has lost its content").in_file(path))?;
    if head.epoch != segment.epoch() || head.kind != segment.kind() {
        return Err(Error::corruption("the segment's head is not what the manifest says")
            .in_file(path)
            .at(0));
    }
    if !live.holes.is_empty() {
        // The scan of frames ends at the first hole. Pointers prove what is live behind it.
        return Ok(());
    }
    let mut records = 0;
    let mut count = |frame: &crate::segment::Frame<'_>| {
        records += frame.records.len() as u64;
        checking.read(frame.records.iter().map(|record| u64::from(record.length)).sum())
    };
    let start = ScanStart::first(&head);
    scan(&*file, path, &head, segment.seal(), ScanMode::Sealed(length), start, &mut count)?;
    checking.report.records += records;
    Ok(())
}
