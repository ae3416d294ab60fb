//! Follows a database that another process may be writing: what an opening reads once, a follower
//! reads on. It takes no lock, and the writer does not know of it.
//!
//! ```text
//! seen.rs    the manifest: edits become the next version
//! log.rs     the log: frames, up to where they are there as a whole
//! tables.rs  the memtables that they go to
//! pinned.rs  hard links to the files, for who pins them
//! ```
//! The manifest is read first, then the log: so the memtables have all that the version has, and
//! more. New entries go to the memtables of the present views, where they are above the visible
//! number; then version, memtables and number change at once (`version/snapshots.rs`). If the head
//! of the log has passed the follower, or the writer began a new manifest, new memtables are filled
//! beside the old ones.
//!
//! I5 holds for readers in the process of the writer. Here, a file can be gone, or have a hole,
//! before it was looked at. What was opened can still be read after it was unlinked, so the files
//! of a version are opened before it is shown; and who meets an error that may come from that
//! catches up and tries again.

mod ends;
mod log;
pub mod pinned;
mod seen;
mod tables;

use crate::base::error::{Error, ErrorKind, InFile, Result};
use crate::base::key::SeqNo;
use crate::env::Env;
use crate::env::key_provider::KeyProvider;
use crate::env::sync::Mutex;
use crate::recovery::comparators::Comparators;
use crate::recovery::keyspaces::{OpenKeyspaces, open_keyspace, open_keyspaces};
use crate::recovery::manifest::check_files;
use crate::version::Version;
use crate::version::files::{TableContext, names};
use crate::version::health::Health;
use crate::version::keys;
use crate::version::manifest::{Current, read_current};
use crate::version::merging::MergeOperators;
use crate::version::runtime::Runtime;
use crate::version::set::{FilesOf, VersionSet};
use crate::version::settings::KeyspaceOptions;
use crate::version::view::KeyspaceState;
pub use ends::FollowedEnds;
use log::{LogEnd, LogRules, LogStop};
use pinned::PinnedFiles;
use seen::{ManifestPlace, ManifestSource, SeenManifest};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tables::FollowedTables;

/// How often reading is begun anew because the writer may have changed something meanwhile.
const TRIES: usize = 100;
/// How often it is begun anew although the writer has changed nothing, before an error is taken for
/// damage.
const TRIES_UNCHANGED: usize = 3;
/// The time to wait between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// What following a database needs from its opening.
pub struct FollowParts {
    /// The world outside.
    pub env: Env,
    /// The directory of the manifest.
    pub dir: PathBuf,
    /// The context that tables are opened with.
    pub tables: Arc<TableContext>,
    /// The comparators that the user gave.
    pub comparators: Comparators,
    /// The merge operators that can be used.
    pub merge_operators: MergeOperators,
    /// The write state of the database.
    pub health: Arc<Health>,
    /// The links that keep the files, until the end; they are in the directory of the context.
    pub pinned: Mutex<Option<PinnedFiles>>,
    /// Whose the files are.
    pub files: FilesOf,
    /// The user's keys, if the database is encrypted.
    pub keys: Option<Arc<dyn KeyProvider>>,
}

/// A database as it was first seen.
pub struct FirstSeen {
    /// The keyspaces, with what was read of the log in their memtables.
    pub keyspaces: OpenKeyspaces,
    /// The version.
    pub version: Version,
    /// The next free id.
    pub next_file: u64,
    /// The newest sequence number.
    pub last_seqno: SeqNo,
    /// Records of the log that were read.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a catch-up found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Followed {
    /// Records of the log that were read.
    pub records: u64,
    /// True if files, keyspaces or settings have changed.
    pub is_new_version: bool,
}

/// The reader of a database that another process may be writing.
pub struct Follower {
    parts: FollowParts,
    state: Mutex<FollowState>,
    /// When the catch-up began that readers see, in nanoseconds by the clock of the environment.
    seen_at: AtomicU64,
}

struct FollowState {
    seen: SeenManifest,
    end: LogEnd,
    /// True if an error left memtables in doubt, so that the next catch-up begins anew.
    is_in_doubt: bool,
    /// The place in the manifest up to which the last try has read.
    tried: Option<ManifestPlace>,
}

/// A catch-up under way.
struct CatchUp {
    seen: SeenManifest,
    end: LogEnd,
    is_new_version: bool,
    /// True if the memtables are begun anew.
    anew: bool,
    rules: LogRules,
}

/// Returns true if an error may come from what the writer has removed or is writing.
pub fn may_have_moved(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io | ErrorKind::NotFound)
}

impl Follower {
    /// Reads a database for the first time. `is_written` tells whether a process writes to it now:
    /// only if none does, the end of the log can be checked for damage.
    pub fn begin(
        parts: FollowParts,
        current: Current,
        is_written: impl Fn() -> bool,
    ) -> Result<(Follower, FirstSeen)> {
        let at = parts.env.clock.now();
        let mut tries = 0;
        loop {
            let is_strict = !is_written();
            let now = if tries == 0 { Ok(current) } else { read_current(&parts.env, &parts.dir) };
            let read = now.and_then(|current| parts.read_first(current, is_strict));
            let (first, seen, end) = match read {
                // Who wrote may have ended by now.
                Err(error)
                    if may_have_moved(&error)
                        && tries < if is_written() { TRIES } else { TRIES_UNCHANGED } =>
                {
                    tries += 1;
                    parts.env.threads.sleep(PAUSE);
                    parts.renew_keys()?;
                    continue;
                }
                read => read?,
            };
            parts.close_unnamed(&seen.version);
            let state = Mutex::new(FollowState { seen, end, is_in_doubt: false, tried: None });
            let seen_at = AtomicU64::new(at.as_nanos() as u64);
            return Ok((Follower { parts, state, seen_at }, first));
        }
    }

    /// Returns what it was begun with.
    pub fn parts(&self) -> &FollowParts {
        &self.parts
    }

    /// Lets go of pinned files. Nothing is read any more.
    pub fn end(&self) {
        let ended = self.parts.pinned.lock().take();
        drop(ended);
    }

    /// Returns when the state was read that readers see, by the clock of the environment. Does not
    /// wait for a catch-up.
    pub fn seen_at(&self) -> Duration {
        Duration::from_nanos(self.seen_at.load(Ordering::Acquire))
    }

    /// Returns how far the log reaches that was read.
    pub fn log_ends(&self) -> Result<FollowedEnds> {
        let state = self.state.lock();
        FollowedEnds::read(&self.parts.env, &state.seen, state.end)
    }

    /// Reads what the writer has done since, and shows it to readers.
    ///
    /// Costs a few small reads if there is nothing new, else as much as the new part of the log and
    /// of the manifest. After an error readers see what they saw before.
    pub fn catch_up(&self, runtime: &Runtime) -> Result<Followed> {
        let mut state = self.state.lock();
        let (mut tries, mut unchanged) = (0, 0);
        loop {
            let at = self.parts.env.clock.now();
            let (before, place) = (state.tried.take(), state.seen.place());
            match self.try_to_catch_up(&mut state, runtime) {
                Ok(followed) => {
                    state.is_in_doubt = false;
                    self.seen_at.store(at.as_nanos() as u64, Ordering::Release);
                    // The state from before is let go of by now. Snapshots may have been dropped
                    // since the last catch-up, too.
                    runtime.set.purge().outcome?;
                    if tries > 0 || state.seen.place() != place {
                        self.parts.close_unnamed(&state.seen.version);
                    }
                    return Ok(followed);
                }
                Err(error) => {
                    state.is_in_doubt = true;
                    tries += 1;
                    unchanged = if before == state.tried { unchanged + 1 } else { 0 };
                    let is_over = tries > TRIES || unchanged > TRIES_UNCHANGED;
                    if is_over || !may_have_moved(&error) {
                        return Err(error);
                    }
                    self.parts.env.threads.sleep(PAUSE);
                }
            }
        }
    }

    fn try_to_catch_up(&self, state: &mut FollowState, runtime: &Runtime) -> Result<Followed> {
        let parts = &self.parts;
        let current = read_current(&parts.env, &parts.dir)?;
        parts.check_identity(current)?;
        let is_other = current != state.seen.current || state.is_in_doubt;
        if is_other {
            parts.renew_keys()?;
        }
        let (mut seen, is_new_version) = if is_other {
            (SeenManifest::read(&parts.source(), current, &state.seen.version)?, true)
        } else {
            let mut seen = state.seen.clone();
            let is_new = seen.read_on(&parts.source())?;
            (seen, is_new)
        };
        state.tried = Some(seen.place());
        if is_new_version {
            parts.hold_files(&mut seen, &state.seen.version)?;
        }
        let anew = is_other || state.end.is_passed(&seen);
        // The head may have passed in the last catch-up, which read edits while it read the log.
        let is_new_version = is_new_version || anew;
        let end = if anew { LogEnd::default() } else { state.end };
        let rules = LogRules { is_strict: false, ingests_until: seen.last_in_tables };
        let mut catch_up = CatchUp { seen, end, is_new_version, anew, rules };
        self.show(state, &mut catch_up, runtime)
    }

    /// Reads the log, and shows what was read.
    fn show(
        &self,
        state: &mut FollowState,
        catch_up: &mut CatchUp,
        runtime: &Runtime,
    ) -> Result<Followed> {
        let parts = &self.parts;
        let set = &runtime.set;
        parts.admit(set, &catch_up.seen.version)?;
        let mut tables = FollowedTables::new(set.keyspaces(), catch_up.anew);
        let stop = parts.read_log(catch_up, &mut tables, |catch_up| {
            parts.admit(set, &catch_up.seen.version)?;
            Ok(set.keyspaces())
        })?;
        if stop == LogStop::TakenBack {
            // Some of it is in the memtables.
            return Err(Error::corruption("the writer has taken commits back that had failed"));
        }
        let records = tables.records;
        let before = if catch_up.anew { 0 } else { runtime.snapshots.visible() };
        let shown = shown(catch_up, stop, before);
        if catch_up.is_new_version {
            let mut version = catch_up.seen.version.clone();
            (version.number, version.mark) = (set.current().number + 1, Arc::default());
            catch_up.seen.version = version.clone();
            runtime.snapshots.expiry.pass(version.dropped_until);
            set.follow(version, &runtime.snapshots, tables.into_new(), shown)?;
        } else {
            runtime.snapshots.publish(shown);
        }
        (state.seen, state.end) = (catch_up.seen.clone(), catch_up.end);
        Ok(Followed { records, is_new_version: catch_up.is_new_version })
    }
}

/// Returns the number up to which everything was read.
fn shown(catch_up: &CatchUp, stop: LogStop, before: SeqNo) -> SeqNo {
    let read = catch_up.seen.last_seqno.max(catch_up.end.last_seqno()).max(before);
    match stop {
        // Its tables are not there yet.
        LogStop::Ingest { seqno, .. } => read.min(seqno - 1),
        _ => read,
    }
}

impl FollowParts {
    /// Reads the data keys again. That they change is seen by the manifest: whoever draws one
    /// begins a new manifest behind it.
    fn renew_keys(&self) -> Result<()> {
        keys::renew(&self.env, &self.dir, &self.tables.identity, self.keys.as_deref())
    }

    fn source(&self) -> ManifestSource<'_> {
        let FollowParts { env, dir, tables, comparators, .. } = self;
        ManifestSource { env, dir, tables, comparators, is_strict: false }
    }

    fn read_first(
        &self,
        current: Current,
        is_strict: bool,
    ) -> Result<(FirstSeen, SeenManifest, LogEnd)> {
        let source = ManifestSource { is_strict, ..self.source() };
        let mut seen = SeenManifest::read(&source, current, &Version::default())?;
        if is_strict && self.files == FilesOf::Others {
            check_files(&self.env, &seen.version)?;
        }
        self.hold_files(&mut seen, &Version::default())?;
        let (comparators, operators) = (&self.comparators, &self.merge_operators);
        let keyspaces = open_keyspaces(&seen.version, comparators, operators, &self.health)?;
        // Where nobody writes, each ingest is over.
        let ingests_until = if is_strict { SeqNo::MAX } else { seen.last_in_tables };
        let rules = LogRules { is_strict, ingests_until };
        let end = LogEnd::default();
        let mut catch_up = CatchUp { seen, end, is_new_version: true, anew: false, rules };
        let states = keyspaces.by_id.values().cloned().collect();
        let mut tables = FollowedTables::new(states, false);
        let stop = self.read_log(&mut catch_up, &mut tables, |_| {
            Err(Error::corruption("the manifest has changed while the database was opened"))
        })?;
        if stop == LogStop::TakenBack {
            return Err(Error::corruption("the log ends before its head"));
        }
        let CatchUp { seen, end, .. } = &catch_up;
        let first = FirstSeen {
            keyspaces,
            version: seen.version.clone(),
            next_file: seen.next_file,
            last_seqno: shown(&catch_up, stop, 0),
            records: tables.records,
            bytes: tables.bytes,
        };
        Ok((first, seen.clone(), *end))
    }

    /// Reads the log, and the manifest again where a frame needs it. `admit` returns the keyspaces
    /// after that.
    fn read_log(
        &self,
        catch_up: &mut CatchUp,
        tables: &mut FollowedTables,
        mut admit: impl FnMut(&CatchUp) -> Result<Vec<Arc<KeyspaceState>>>,
    ) -> Result<LogStop> {
        loop {
            let CatchUp { seen, end, rules, .. } = catch_up;
            let is_new;
            let stop = end.read_on(&self.env, seen, *rules, &mut |handle, frame| {
                tables.insert(&seen.version, handle, frame)
            })?;
            match stop {
                LogStop::End | LogStop::TakenBack => return Ok(stop),
                // Each ingest is over before the next commit begins, and its tables are in the
                // manifest by then unless it failed.
                LogStop::Ingest { seqno, is_over } => {
                    is_new = self.read_edits(catch_up)?;
                    if !is_over && catch_up.seen.last_in_tables < seqno {
                        return Ok(stop);
                    }
                    catch_up.rules.ingests_until = seqno;
                }
                LogStop::Keyspace(id) => {
                    is_new = self.read_edits(catch_up)?;
                    if id.0 >= catch_up.seen.next_file {
                        return Err(Error::corruption(format!(
                            "a commit is to keyspace {id}, which the manifest never knew"
                        ))
                        .advise("restore the database from a checkpoint"));
                    }
                }
            }
            if is_new {
                tables.admit(admit(catch_up)?);
            }
        }
    }

    fn read_edits(&self, catch_up: &mut CatchUp) -> Result<bool> {
        let before = catch_up.seen.version.clone();
        let is_new = catch_up.seen.read_on(&self.source())?;
        if is_new {
            self.hold_files(&mut catch_up.seen, &before)?;
            catch_up.is_new_version = true;
        }
        // What an edit does not say that was looked for may be in a newer manifest, if the old one
        // could not be unlinked.
        if read_current(&self.env, &self.dir)? != catch_up.seen.current {
            return Err(Error::corruption("the writer has begun a new manifest meanwhile"));
        }
        Ok(is_new)
    }

    /// Opens the keyspaces of a version that are not open yet, and changes the settings of others.
    fn admit(&self, set: &VersionSet, version: &Version) -> Result<()> {
        let known = set.keyspaces();
        for (&id, keyspace) in &version.keyspaces {
            match known.iter().find(|state| state.id == id) {
                None => {
                    let (version, operators) = (Arc::new(version.clone()), &self.merge_operators);
                    let (state, _) =
                        open_keyspace(id, &version, &self.comparators, operators, &self.health)?;
                    set.register(state);
                }
                Some(state) if state.options().to_text() != keyspace.settings => {
                    state.set_options(KeyspaceOptions::from_manifest(&keyspace.settings)?.0);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Keeps the files that were seen and that `before` did not have: by links, or by opening them,
    /// since what is open can be read after the writer has unlinked it.
    fn hold_files(&self, seen: &mut SeenManifest, before: &Version) -> Result<()> {
        let mut known: BTreeSet<PathBuf> = before.paths().collect();
        let pinned = self.pinned.lock();
        loop {
            let new: Vec<PathBuf> =
                seen.version.paths().filter(|path| known.insert(path.clone())).collect();
            let Some(pinned) = &*pinned else {
                return new.iter().try_for_each(|path| self.tables.files.get(path).map(|_| ()));
            };
            new.iter().try_for_each(|path| pinned.link(path))?;
            // I5: a file is punched after an edit, unless it has a second name by then. So if there
            // was no edit until all had one, none has a hole that this version does not know.
            if !seen.read_on(&self.source())? {
                return Ok(());
            }
        }
    }

    /// I5: closes the files that neither `version`, which readers see from now on, nor an older one
    /// that somebody still reads has. The manifest may have named them in between, while the log
    /// was read, or in a try that failed; no version that was shown ever lost them, so nothing else
    /// would close them, and what the writer has removed would keep its space on the disk.
    fn close_unnamed(&self, version: &Version) {
        let still_read = self.tables.purge.still_read();
        for (path, _) in self.tables.files.held() {
            let is_needed = version.names(names::parse(&path)) || still_read.contains(&path);
            if !is_needed {
                self.tables.files.forget(&path);
            }
        }
    }

    /// Refuses to go on in a directory in which there is another database by now.
    fn check_identity(&self, current: Current) -> Result<()> {
        let identity = &self.tables.identity;
        if current.database == identity.id && current.is_encrypted == identity.is_encrypted() {
            return Ok(());
        }
        let error = Error::wrong_state("there is another database in the directory by now");
        Err(error.advise("open it anew")).in_file(&self.dir)
    }
}
