//! When values expire: how users say it, and how they ask.

use crate::base::entry::{Payload, Slot};
use crate::base::error::Result;
use crate::base::expiry::{Deadline, ExpiryTime};
use crate::base::key::Trailer;
use crate::commit::batch::Batch;
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;
use crate::db::read_options::ReadOptions;
use crate::env::clock::{SystemTime, since_1970};
use crate::read::get::find;
use std::time::Duration;

/// When a value expires. From then on, its key has no value.
///
/// A [`Duration`] and a [`SystemTime`] can be passed wherever an `Expiry` is asked for.
///
/// ```
/// # let sessions = cleavedb::open(cleavedb::doc_dir("expiry"))?.default_keyspace();
/// use cleavedb::Expiry;
/// use std::time::{Duration, SystemTime};
/// sessions.put_expiring("s1", "Ada", Duration::from_secs(3600))?;
/// sessions.put_expiring("s2", "Bob", SystemTime::now() + Duration::from_secs(60))?;
/// sessions.put_expiring("root", "Eve", Expiry::Never)?;
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expiry {
    /// Never, even if the keyspace has a default.
    Never,
    /// This long after the call that names it, also in a batch or a transaction, which is committed
    /// later. So it is with a keyspace's default.
    After(Duration),
    /// At this time. A value whose time has passed already is absent from the start.
    At(SystemTime),
}

impl From<Duration> for Expiry {
    fn from(time: Duration) -> Self {
        Expiry::After(time)
    }
}

impl From<SystemTime> for Expiry {
    fn from(time: SystemTime) -> Self {
        Expiry::At(time)
    }
}

/// What [`Keyspace::ttl`] says about the value of a key.
///
/// ```
/// # let sessions = cleavedb::open(cleavedb::doc_dir("ttl-type"))?.default_keyspace();
/// use cleavedb::Ttl;
/// sessions.put("root", "Eve")?;
/// match sessions.ttl("root")? {
///     None => println!("there is no value"),
///     Some(Ttl::Never) => println!("it stays"),
///     Some(Ttl::Left(time)) => println!("it expires in {} s", time.as_secs()),
/// }
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ttl {
    /// It never expires.
    Never,
    /// It expires after this time, in whole milliseconds.
    Left(Duration),
}

/// Returns a time span in milliseconds, rounded up.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns what is left at `now` until a deadline, zero if it has passed.
fn ttl(deadline: Option<Deadline>, now: ExpiryTime) -> Ttl {
    let left = |deadline: Deadline| Duration::from_millis(deadline.0.saturating_sub(now.0));
    deadline.map_or(Ttl::Never, |deadline| Ttl::Left(left(deadline)))
}

impl Keyspace {
    /// Puts a value that expires: after a time span, at a time, or never. Then the key has no
    /// value, and the space comes back.
    ///
    /// A keyspace can have a default for all puts, [`KeyspaceOptions::default_ttl`].
    ///
    /// Time is that of the system's clock, in milliseconds, except that it never goes back while
    /// the database is open: after the system's clock was set back, it goes on from where it was. A
    /// snapshot, a cursor and a scan see what had not expired when they were made.
    ///
    /// Costs and fails as [`Keyspace::put`].
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("put-expiring"))?.default_keyspace();
    /// use std::time::Duration;
    /// sessions.put_expiring("s1", "Ada", Duration::from_secs(3600))?;
    /// assert_eq!(sessions.get("s1")?.unwrap(), "Ada");
    /// sessions.put_expiring("s2", "Bob", Duration::ZERO)?;
    /// assert!(sessions.get("s2")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`KeyspaceOptions::default_ttl`]: crate::KeyspaceOptions::default_ttl
    pub fn put_expiring(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> Result<()> {
        self.put_with(key, value, &WriteOptions::new().expiry(expiry))
    }

    /// Returns how long the value of a key stays, or `None` if the key has no value.
    ///
    /// Costs as much as [`Keyspace::contains_key`].
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("ttl"))?.default_keyspace();
    /// use cleavedb::Ttl;
    /// use std::time::Duration;
    /// sessions.put("root", "Eve")?;
    /// sessions.put_expiring("s1", "Ada", Duration::from_secs(3600))?;
    /// assert_eq!(sessions.ttl("root")?, Some(Ttl::Never));
    /// assert!(matches!(sessions.ttl("s1")?, Some(Ttl::Left(time)) if time.as_secs() <= 3600));
    /// assert_eq!(sessions.ttl("s2")?, None);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Ttl>> {
        self.ttl_with(key, &ReadOptions::default())
    }

    /// Answers as [`Keyspace::ttl`] does, at a snapshot, in a transaction, or without filling the
    /// cache. At a snapshot the time counts from when that was taken, in a transaction from when
    /// that began.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("ttl-with"))?;
    /// # let sessions = db.default_keyspace();
    /// use cleavedb::{ReadOptions, Ttl};
    /// sessions.put("root", "Eve")?;
    /// let then = ReadOptions::new().snapshot(&db.snapshot());
    /// sessions.delete("root")?;
    /// assert_eq!(sessions.ttl_with("root", &then)?, Some(Ttl::Never));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn ttl_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Ttl>> {
        let key = key.as_ref();
        self.again(options, || self.ttl_once(key, options))
    }

    fn ttl_once(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Ttl>> {
        let (view, point) = self.peek_fixed(options.read_snapshot())?;
        if let Some(transaction) = &options.transaction {
            let own = |batch: &Batch, operation| Ok(batch.deadline(operation));
            if let Some(own) = transaction.read(&self.state, key, own)? {
                return Ok(own.map(|deadline| ttl(deadline, point.moment.time())));
            }
        }
        let see = |_: Trailer, payload: Payload<'_>| {
            let now = point.moment.time();
            if payload.seen_at(|| now) == Slot::Delete {
                return None;
            }
            Some((ttl(payload.deadline, now), payload.deadline))
        };
        let (fill, hot) = (options.fill_cache, Some(&*self.core.hot));
        let found = find(&view, key, point.seqno, fill, hot, None, see)?.flatten();
        if let (Some(transaction), Some((_, Some(deadline)))) = (&options.transaction, found) {
            transaction.note_deadline(&self.state, key, deadline);
        }
        Ok(found.map(|(ttl, _)| ttl))
    }

    /// Returns the deadline of a value that is put now: what the caller asks for, else by the
    /// keyspace's default.
    pub(crate) fn deadline(&self, expiry: Option<Expiry>) -> Option<Deadline> {
        let default = || self.state.options().default_ttl.map(Expiry::After);
        match expiry.or_else(default)? {
            Expiry::Never => None,
            Expiry::After(time) => {
                let now = self.core.snapshots.expiry.now();
                Some(Deadline(now.0.saturating_add(millis(time))))
            }
            Expiry::At(time) => Some(Deadline(millis(since_1970(time)))),
        }
    }
}
