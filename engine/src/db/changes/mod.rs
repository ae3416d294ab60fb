//! The public change feed: [`Db::changes`] hands out the committed batches of the log, in order,
//! and goes on as more are committed. `commit/feed.rs` reads them.

mod batch;
mod options;

pub use batch::{ChangeBatch, Changed, ChangesOf, KeyChange};
pub use options::ChangesOptions;

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::commit::feed::{FeedSource, LogFeed};
use crate::db::holders::CoreHold;
use crate::db::{Core, Db};
use crate::recovery::follow::{FollowedEnds, Follower};
use crate::segment::Frame;
use crate::version::pins::{Pin, PinKind, PinOwner};
use batch::KeyspaceNames;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks at what the process has written that is followed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A consumer of the change feed: committed batches in the order of commits, each whole, and more
/// as they are committed. [`Db::changes`] makes one.
///
/// Each consumer has a buffer of 1 MiB (up to 16 MiB after batches of that size), and reads the log
/// in order, so that many can follow one database. Writers do nothing for consumers, except that a
/// commit wakes those that wait.
///
/// It holds the database open, like a cursor. Once that was closed, it fails with
/// [`ErrorKind::Closed`](crate::ErrorKind::Closed). After any other error it stands where it stood:
/// the next call tries again, and no batch is passed over.
///
/// ```
/// # let dir = cleavedb::doc_dir("changes");
/// use cleavedb::Changed;
/// let db = cleavedb::open(&dir)?;
/// let words = db.default_keyspace();
/// let mut changes = db.changes(db.visible_seqno())?;
/// words.put("one", "eins")?;
/// words.delete("two")?;
/// while let Some(batch) = changes.next_batch()? {
///     for change in &batch {
///         match change.what {
///             Changed::Put { value, .. } => println!("{:?} = {:?}", change.key, value),
///             Changed::Delete => println!("{:?} is gone", change.key),
///             _ => println!("something newer than this program"),
///         }
///     }
/// }
/// assert_eq!(changes.position(), db.visible_seqno());
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub struct Changes {
    core: CoreHold,
    feed: LogFeed,
    options: ChangesOptions,
    names: KeyspaceNames,
    pin: Arc<Pin>,
    /// How far the log reaches that a follower has read, and at which state.
    followed: (FollowedState, FollowedEnds),
}

impl Changes {
    fn begin(core: &Arc<Core>, since: SeqNo, options: &ChangesOptions) -> Result<Changes> {
        core.check_open()?;
        if core.follower.is_some() && options.pin {
            let error = Error::unsupported("who follows a database can't keep the writer's log");
            return Err(error.advise("pin it in the process that writes it"));
        }
        let owner = |seqno| {
            let since = core.env.clock.now();
            PinOwner { kind: PinKind::Changes, keyspace: None, seqno, since }
        };
        let pins = &core.snapshots.pins;
        // The log is pinned before anything is looked for, so that nothing found goes.
        let pin = Arc::new(pins.register(owner(since), None));
        let mut log_pin = options.pin.then(|| core.set.log_pins().register(pin.clone()));
        // Only who follows tries again, and has no pin.
        let (followed, feed) = core.again(|| {
            let followed = followed(core)?;
            let feed = LogFeed::begin(source(core, &followed), since, log_pin.take())?;
            Ok((followed, feed))
        })?;
        pin.move_to(feed.position());
        let (options, names) = (options.clone(), KeyspaceNames::default());
        let core_hold = CoreHold::new(core.clone());
        let changes = Changes { core: core_hold, feed, options, names, pin, followed };
        changes.vouch(core)?;
        Ok(changes)
    }

    /// Returns the number of the last change that was handed out: what to pass to [`Db::changes`]
    /// to go on from here, in this session or a later one. Before the first batch it is the number
    /// behind which the feed began: for a consumer that began at 0, it is 0 if the log still has
    /// everything.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("changes-position"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let mut changes = db.changes(0)?;
    /// assert_eq!(changes.position(), 0);
    /// let batch = changes.next_batch()?.unwrap();
    /// assert_eq!(changes.position(), batch.last_seqno());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn position(&self) -> SeqNo {
        self.feed.position()
    }

    /// Returns the next batch, or `None` if there is none yet. Does not wait for commits.
    ///
    /// Costs a copy of the batch, and one read of 1 MiB for each MiB of log. What was just written
    /// comes from the write buffer. A consumer that hands out only what is durable syncs the log if
    /// more is committed than is durable, once for all of it, as [`Db::sync`] does; writers go on
    /// meanwhile.
    ///
    /// Fails with [`ErrorKind::ChangesGone`](crate::ErrorKind::ChangesGone) if the log no longer
    /// has the next batch, which does not happen to a consumer that pins it; and like any read, if
    /// a file can't be read or is damaged.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("changes-next"))?;
    /// let mut changes = db.changes(0)?;
    /// assert!(changes.next_batch()?.is_none());
    /// db.default_keyspace().put("one", "eins")?;
    /// assert_eq!(changes.next_batch()?.unwrap().len(), 1);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn next_batch(&mut self) -> Result<Option<ChangeBatch>> {
        let core = self.core.get()?.clone();
        core.check_open()?;
        core.follow_if_due()?;
        let batch = core.again(|| self.take_next(&core))?;
        if let Some(batch) = &batch {
            self.pin.move_to(batch.last_seqno());
        }
        Ok(batch)
    }

    fn take_next(&mut self, core: &Core) -> Result<Option<ChangeBatch>> {
        self.note_followed(core)?;
        let mut limit = self.limit(core);
        if limit <= self.feed.position() && self.can_sync(core) {
            // Everything that is durable was handed out, and more is visible.
            core.committer.sync_for_user()?;
            limit = self.limit(core);
        }
        let Changes { feed, names, followed, .. } = self;
        let take = |frame: &Frame<'_>| ChangeBatch::of(frame, names, &core.set.current());
        feed.next(source(core, followed), limit, take)
    }

    /// Returns the next batch; waits for one to be committed if there is none yet. Returns `None`
    /// if `time` has passed.
    ///
    /// The commit that it waits for wakes it at once. It may also wait for a sync, which counts as
    /// time that passes but is not cut short. Fails as [`Changes::next_batch`], and with
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) as soon as the database is closed.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("changes-wait"))?;
    /// use std::time::Duration;
    /// let mut changes = db.changes(0)?;
    /// let words = db.default_keyspace();
    /// let writer = std::thread::spawn(move || words.put("one", "eins"));
    /// let batch = changes.wait_batch(Duration::from_secs(60))?.unwrap();
    /// assert_eq!(batch.iter().next().unwrap().key, b"one");
    /// writer.join().unwrap()?;
    /// assert!(changes.wait_batch(Duration::from_millis(1))?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn wait_batch(&mut self, time: Duration) -> Result<Option<ChangeBatch>> {
        let core = self.core.get()?.clone();
        let clock = &core.env.clock;
        let until = clock.now().saturating_add(time);
        loop {
            // The signal is read first: one that is given from here on ends the wait below.
            let given = core.committer.signal.given();
            if let Some(batch) = self.next_batch()? {
                return Ok(Some(batch));
            }
            let left = clock.left(until);
            if left == Duration::ZERO {
                return Ok(None);
            }
            if core.follower.is_some() {
                // The process that writes tells nobody.
                core.committer.signal.wait(given, left.min(LOOK_AGAIN));
                core.catch_up()?;
                continue;
            }
            // Where nobody writes, only closing ends the wait.
            let position = self.feed.position();
            if core.options.read_only || core.committer.signal_after(position) {
                core.committer.signal.wait(given, left);
            }
        }
    }

    /// Goes on behind `seqno`, without handing out what is before. A number that was handed out
    /// already changes nothing. Costs as much as [`Db::changes`].
    ///
    /// A consumer that pins the log lets go of what it has handed out. To keep what somebody else
    /// has not confirmed yet, make a second one that pins the log, read nothing from it, and move
    /// it to what was confirmed.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("changes-skip"))?;
    /// use cleavedb::ChangesOptions;
    /// let words = db.default_keyspace();
    /// let mut confirmed = db.changes_with(0, &ChangesOptions::new().pin(true))?;
    /// let mut changes = db.changes(0)?;
    /// words.put("one", "eins")?;
    /// words.put("two", "zwei")?;
    /// let first = changes.next_batch()?.unwrap();
    /// confirmed.skip_to(first.last_seqno())?;
    /// // A new consumer goes on from what was confirmed.
    /// let mut again = db.changes(confirmed.position())?;
    /// assert_eq!(again.next_batch()?.unwrap().iter().next().unwrap().key, b"two");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn skip_to(&mut self, seqno: SeqNo) -> Result<()> {
        let core = self.core.get()?.clone();
        core.check_open()?;
        if seqno > self.feed.position() {
            core.again(|| {
                self.note_followed(&core)?;
                self.feed.skip_to(source(&core, &self.followed), seqno)
            })?;
            self.pin.move_to(seqno);
        }
        // I2: also if nothing moves, as the sync of the call before may have failed.
        self.vouch(&core)
    }

    /// Makes durable what the consumer says it has, if it wants only what is: a copy made at a
    /// snapshot may be ahead.
    fn vouch(&self, core: &Core) -> Result<()> {
        let is_ahead = self.feed.position() > self.limit(core);
        if is_ahead && !core.options.read_only {
            core.committer.sync_for_user()?;
        }
        Ok(())
    }

    /// Returns the number up to which batches are handed out now.
    fn limit(&self, core: &Core) -> SeqNo {
        let visible = source(core, &self.followed).visible();
        if self.options.visible {
            return visible;
        }
        let settled = match core.follower {
            Some(_) => self.followed.1.settled_seqno,
            None => core.settled_seqno,
        };
        core.committer.log().durable().max(settled).min(visible)
    }

    /// Looks how far the log reaches, if a follower has read more of it since.
    fn note_followed(&mut self, core: &Core) -> Result<()> {
        if core.follower.is_some() && self.followed.0 != FollowedState::of(core) {
            let (state, FollowedEnds { ends, settled_seqno }) = followed(core)?;
            // A segment that is gone by now may still be read by this consumer, which holds it.
            self.followed.1.ends.extend(ends);
            (self.followed.0, self.followed.1.settled_seqno) = (state, settled_seqno);
        }
        Ok(())
    }

    /// Returns true if a sync would make more durable.
    fn can_sync(&self, core: &Core) -> bool {
        let is_behind = core.snapshots.visible() > self.feed.position();
        is_behind && !self.options.visible && !core.options.read_only
    }
}

/// What tells one state of a follower from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FollowedState {
    visible: SeqNo,
    version: u64,
}

impl FollowedState {
    fn of(core: &Core) -> Self {
        FollowedState { visible: core.snapshots.visible(), version: core.set.current().number }
    }
}

/// Returns how far the log reaches that a follower has read, and the state before.
fn followed(core: &Core) -> Result<(FollowedState, FollowedEnds)> {
    let state = FollowedState::of(core);
    let follower = core.follower.as_ref();
    let ends = follower.map(Follower::log_ends).transpose()?.unwrap_or_default();
    Ok((state, ends))
}

fn source<'a>(core: &'a Core, followed: &'a (FollowedState, FollowedEnds)) -> FeedSource<'a> {
    let (state, FollowedEnds { ends, .. }) = followed;
    let (log_ends, known) = match core.follower {
        Some(_) => (ends, Some(state.visible)),
        None => (&core.log_ends, None),
    };
    FeedSource { runtime: &core.runtime, log_ends, known }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Changes { options, .. } = self;
        f.debug_struct("Changes")
            .field("position", &self.position())
            .field("options", options)
            .finish_non_exhaustive()
    }
}

impl Db {
    /// Hands out what was committed behind the sequence number `since`: whole batches, in the order
    /// of commits, and further ones as they are committed. 0 begins with the oldest that the log
    /// has, which is everything only if [`Changes::position`] is 0 then.
    ///
    /// The numbers are those of [`Snapshot::seqno`], [`Keyspace::get_versioned`] and
    /// [`Db::visible_seqno`], and go on from session to session. If `since` is the number of a
    /// change within a batch, that batch is handed out whole.
    ///
    /// Only what is durable is handed out, so a consumer elsewhere is never ahead of this database
    /// after a power cut. If it were, its last number would be given again to another commit, and
    /// nobody could tell. [`ChangesOptions::visible`] trades this for speed.
    ///
    /// The log is the database's own: its segments go when nothing in them is needed any more. Then
    /// this, or a later call, fails with [`ErrorKind::ChangesGone`] and names the oldest number
    /// that is there. [`ChangesOptions::pin`] keeps them while the consumer lives. A consumer that
    /// begins, or has fallen behind, starts from a copy:
    ///
    /// 1. Make a consumer that pins the log: `db.changes_with(db.visible_seqno(), …)`.
    /// 2. Take a snapshot, or a checkpoint, and copy all of it; the snapshot's number is its own.
    /// 3. Go on behind that number ([`Changes::skip_to`]).
    ///
    /// Deletions by expiry are no changes: the deadline comes with the value. Neither is what a
    /// keyspace was created or dropped for: changes in a dropped keyspace have its id and no name.
    ///
    /// Costs one small read for each log segment behind `since`, and a sync if `since` is not
    /// durable yet. A consumer that pins the log and has something to catch up with also reads the
    /// newest segment, to be told now if the last changes are gone. Fails with
    /// [`ErrorKind::ChangesGone`] also if `since` is greater than the newest number.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-changes"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// let seen = db.visible_seqno();
    /// words.put("two", "zwei")?;
    /// let mut changes = db.changes(seen)?;
    /// let batch = changes.next_batch()?.unwrap();
    /// let change = batch.iter().next().unwrap();
    /// assert_eq!((change.keyspace, change.key), (Some("default"), &b"two"[..]));
    /// assert!(changes.next_batch()?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::ChangesGone`]: crate::ErrorKind::ChangesGone
    /// [`Snapshot::seqno`]: crate::Snapshot::seqno
    /// [`Keyspace::get_versioned`]: crate::Keyspace::get_versioned
    pub fn changes(&self, since: SeqNo) -> Result<Changes> {
        self.changes_with(since, &ChangesOptions::default())
    }

    /// Does as [`Db::changes`], with options: to pin the log, and to see what is not durable yet.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-changes-with"))?;
    /// use cleavedb::ChangesOptions;
    /// let here = ChangesOptions::new().visible(true);
    /// let mut changes = db.changes_with(db.visible_seqno(), &here)?;
    /// db.default_keyspace().put("one", "eins")?;
    /// assert_eq!(changes.next_batch()?.unwrap().last_seqno(), db.visible_seqno());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn changes_with(&self, since: SeqNo, options: &ChangesOptions) -> Result<Changes> {
        Changes::begin(&self.core, since, options)
    }
}
