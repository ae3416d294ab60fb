//! The public write batch.

use crate::base::error::{Error, Result};
use crate::base::key::SeqNo;
use crate::commit::batch::Batch;
use crate::db::Core;
use crate::db::compare::Expected;
use crate::db::expiry::Expiry;
use crate::db::keyspace::Keyspace;
use crate::version::view::KeyspaceState;
use std::fmt;
use std::sync::{Arc, Weak};

/// A batch of operations over one or several keyspaces that become visible together, or not at all.
///
/// Operations on one key apply in the order they were added. An operation that can't be written (a
/// key too long, a keyspace dropped) is reported by [`crate::Db::write`], and nothing of the batch
/// is written then.
///
/// ```
/// # let dir = cleavedb::doc_dir("batch");
/// use cleavedb::WriteBatch;
/// let db = cleavedb::open(&dir)?;
/// let (names, ages) = (db.create_keyspace("names")?, db.create_keyspace("ages")?);
/// let mut batch = WriteBatch::new();
/// batch.put(&names, "1", "Ada").put(&ages, "1", "36").delete(&names, "0");
/// db.write(batch)?;
/// assert_eq!(ages.get("1")?.unwrap(), "36");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a batch does nothing until `Db::write` takes it"]
pub struct WriteBatch {
    inner: Batch,
    /// The database of the first operation, the only one that the batch can be written to; `None`
    /// before.
    home: Option<Weak<Core>>,
    requirements: Vec<Requirement>,
    error: Option<Error>,
}

/// What must be under a key for a batch to be written.
pub(crate) struct Requirement {
    pub keyspace: Arc<KeyspaceState>,
    pub key: Box<[u8]>,
    pub expected: OwnedExpected,
}

/// An [`Expected`] that owns its value.
pub(crate) enum OwnedExpected {
    Absent,
    Version(SeqNo),
    Value(Box<[u8]>),
}

impl WriteBatch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put of a value under a key.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("batch-put"))?.default_keyspace();
    /// # use cleavedb::WriteBatch;
    /// # let mut batch = WriteBatch::new();
    /// batch.put(&words, "one", "eins").put(&words, "two", "zwei");
    /// assert_eq!(batch.len(), 2);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), None)
    }

    /// Adds a put of a value that expires as [`Keyspace::put_expiring`] says. A time span counts
    /// from this call on, not from when the batch is written.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("batch-put-expiring"))?;
    /// # let sessions = db.default_keyspace();
    /// use cleavedb::{Ttl, WriteBatch};
    /// use std::time::Duration;
    /// let mut batch = WriteBatch::new();
    /// batch.put_expiring(&sessions, "s1", "Ada", Duration::from_secs(3600));
    /// batch.put(&sessions, "owner", "Ada");
    /// db.write(batch)?;
    /// assert!(matches!(sessions.ttl("s1")?, Some(Ttl::Left(_))));
    /// assert_eq!(sessions.ttl("owner")?, Some(Ttl::Never));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn put_expiring(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
    ) -> &mut Self {
        self.put_until(keyspace, key.as_ref(), value.as_ref(), Some(expiry.into()))
    }

    fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> &mut Self {
        let deadline = keyspace.deadline(expiry);
        self.add(keyspace, |batch| batch.put(&keyspace.state, key, value, deadline))
    }

    /// Adds a merge of an operand with what is under a key then, as [`Keyspace::merge`] does.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("batch-merge"))?;
    /// use cleavedb::{KeyspaceOptions, WriteBatch, merge_operators};
    /// let merge_operator = Some(merge_operators::ADD.to_owned());
    /// let options = KeyspaceOptions { merge_operator, ..Default::default() };
    /// let counters = db.create_keyspace_with("counters", options)?;
    /// let mut batch = WriteBatch::new();
    /// batch.merge(&counters, "visits", "1").merge(&counters, "pages", "3");
    /// db.write(batch)?;
    /// assert_eq!(counters.get("pages")?.unwrap(), "3");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Self {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.add(keyspace, |batch| batch.merge(&keyspace.state, key, operand))
    }

    /// Adds the deletion of a key.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("batch-delete"))?.default_keyspace();
    /// # use cleavedb::WriteBatch;
    /// # let mut batch = WriteBatch::new();
    /// batch.put(&words, "one", "eins").delete(&words, "one");
    /// assert_eq!(batch.len(), 2);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.add(keyspace, |batch| batch.delete(&keyspace.state, key.as_ref()))
    }

    pub(super) fn add(
        &mut self,
        keyspace: &Keyspace,
        operation: impl FnOnce(&mut Batch) -> Result<()>,
    ) -> &mut Self {
        let at_home = self.is_at_home(&keyspace.core);
        let added = at_home.and_then(|()| operation(&mut self.inner));
        self.note(added)
    }

    /// Requires that what is under a key, in the moment before the batch takes effect, is as
    /// expected. [`crate::Db::write`] fails with [`ErrorKind::Conflict`] otherwise and writes
    /// nothing; nobody else writes between the comparison and the batch. A requirement sees none of
    /// the batch's own operations. A value that has expired in that moment is absent.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("batch-require"))?;
    /// # let users = db.create_keyspace("users")?;
    /// # let emails = db.create_keyspace("emails")?;
    /// use cleavedb::{ErrorKind, Expected, WriteBatch};
    /// let register = |name: &str| {
    ///     let mut batch = WriteBatch::new();
    ///     batch.require(&emails, "ada@example.org", Expected::Absent);
    ///     batch.put(&users, name, "").put(&emails, "ada@example.org", name);
    ///     db.write(batch)
    /// };
    /// register("ada")?;
    /// assert_eq!(register("eve").unwrap_err().kind(), ErrorKind::Conflict);
    /// assert!(users.get("eve")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Conflict`]: crate::ErrorKind::Conflict
    pub fn require(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        expected: Expected<'_>,
    ) -> &mut Self {
        let at_home = self.is_at_home(&keyspace.core);
        let expected = match expected {
            Expected::Absent => OwnedExpected::Absent,
            Expected::Version(version) => OwnedExpected::Version(version),
            Expected::Value(value) => OwnedExpected::Value(value.into()),
        };
        let (keyspace, key) = (keyspace.state.clone(), key.as_ref().into());
        self.requirements.push(Requirement { keyspace, key, expected });
        self.note(at_home)
    }

    /// Returns an error unless `core` is the database of the earlier operations.
    fn is_at_home(&mut self, core: &Arc<Core>) -> Result<()> {
        let home = self.home.get_or_insert_with(|| Arc::downgrade(core));
        if std::ptr::eq(home.as_ptr(), Arc::as_ptr(core)) {
            return Ok(());
        }
        Err(Error::invalid_argument("a batch is for keyspaces of one database"))
    }

    fn note(&mut self, added: Result<()>) -> &mut Self {
        if let Err(error) = added {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Returns the number of operations.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("batch-len"))?.default_keyspace();
    /// # use cleavedb::WriteBatch;
    /// # let mut batch = WriteBatch::new();
    /// assert!(batch.is_empty());
    /// batch.put(&words, "one", "eins");
    /// assert_eq!((batch.len(), batch.bytes()), (1, 7));
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Returns true if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Returns the bytes of keys and values in the batch.
    pub fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// Removes all operations but keeps the memory.
    ///
    /// ```
    /// # let words = cleavedb::open(cleavedb::doc_dir("batch-clear"))?.default_keyspace();
    /// # use cleavedb::WriteBatch;
    /// # let mut batch = WriteBatch::new();
    /// for chunk in [["one", "two"], ["three", "four"]] {
    ///     batch.clear();
    ///     for key in chunk {
    ///         batch.put(&words, key, "");
    ///     }
    ///     assert_eq!(batch.len(), 2);
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn clear(&mut self) {
        self.inner.clear();
        self.home = None;
        self.requirements.clear();
        self.error = None;
    }

    /// Returns the operations, to be written to `core`, and what they require.
    pub(crate) fn into_inner(mut self, core: &Arc<Core>) -> Result<(Batch, Vec<Requirement>)> {
        if !self.is_empty() || !self.requirements.is_empty() {
            self.is_at_home(core)?;
        }
        self.error.map_or(Ok((self.inner, self.requirements)), Err)
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("operations", &self.len())
            .field("bytes", &self.bytes())
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}
