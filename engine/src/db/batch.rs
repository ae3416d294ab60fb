//! The write batch as users hold it.

use crate::base::error::{Error, Result};
use crate::commit::batch::Batch;
use crate::db::keyspace::Keyspace;

/// Operations over one or several keyspaces that become visible together, or not at all.
///
/// Operations on one key count in the order they were added. What can't be written (a key too
/// long, a keyspace dropped) is reported by [`crate::Db::write`], and nothing of the batch is
/// written then.
///
/// ```
/// # let dir = cleavedb::doc_dir("batch");
/// use cleavedb::{WriteBatch, WriteOptions};
/// let db = cleavedb::open(&dir)?;
/// let (names, ages) = (db.keyspace("names")?, db.keyspace("ages")?);
/// let mut batch = WriteBatch::new();
/// batch.put(&names, "1", "Ada").put(&ages, "1", "36").delete(&names, "0");
/// db.write(batch, &WriteOptions::default())?;
/// assert_eq!(ages.get("1")?.unwrap(), "36");
/// # Ok::<(), cleavedb::Error>(())
/// ```
#[derive(Default)]
pub struct WriteBatch {
    inner: Batch,
    error: Option<Error>,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value under a key.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        let added = self.inner.put(&keyspace.state, key.as_ref(), value.as_ref());
        self.note(added)
    }

    /// Adds the deletion of a key.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        let added = self.inner.delete(&keyspace.state, key.as_ref());
        self.note(added)
    }

    fn note(&mut self, added: Result<()>) -> &mut Self {
        if let Err(error) = added {
            self.error.get_or_insert(error);
        }
        self
    }

    /// How many operations it holds.
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Bytes of keys and values it holds.
    pub fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    /// Forgets all operations; keeps the memory.
    pub fn clear(&mut self) {
        self.inner.clear();
        self.error = None;
    }

    pub(crate) fn into_inner(self) -> Result<Batch> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.inner),
        }
    }
}
