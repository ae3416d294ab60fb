//! The user's merge operators: how operands become a value. The public interface.

use crate::base::error::Result;

/// Merges operands with the value of a key, so that a write need not read first: a counter, a list
/// that grows, a set, a maximum.
///
/// [`Keyspace::merge`](crate::Keyspace::merge) writes an operand. What it makes of the value is
/// worked out later: by reads, and for good by flushes and compactions. A keyspace gets its
/// operator when it is created, by name ([`KeyspaceOptions::merge_operator`]), and keeps it. The
/// built-in operators ([`merge_operators`](crate::merge_operators)) are always known; one's own is
/// given to [`Builder::merge_operator`](crate::Builder::merge_operator) at each opening.
///
/// It must be deterministic, because the same operands are merged again and again, at other times
/// and in other groups: what [`MergeOperator::full`] makes of some operands may be the base of the
/// next. It is called by many threads at once, without any lock, and must not call
/// the database. A panic in it turns the database read-only.
///
/// An error of [`MergeOperator::full`] is the error of the read that needed the value. Nothing is
/// lost by it: flushes and compactions keep the operands as they are. The key can be read again
/// after a put, a delete, or operands with which the merge works.
///
/// [`KeyspaceOptions::merge_operator`]: crate::KeyspaceOptions::merge_operator
///
/// ```
/// # let dir = cleavedb::doc_dir("merge-operator");
/// use cleavedb::{Db, KeyspaceOptions, MergeOperator, Result};
/// use std::sync::Arc;
///
/// /// Keeps the longest text.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "example.Longest"
///     }
///     fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
///         let all = base.into_iter().chain(operands.iter().copied());
///         Ok(all.max_by_key(|text| text.len()).unwrap_or_default().to_vec())
///     }
///     fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
///         Some(if newer.len() >= older.len() { newer.to_vec() } else { older.to_vec() })
///     }
/// }
///
/// let db = Db::builder(&dir).merge_operator(Arc::new(Longest)).open()?;
/// let merge_operator = Some("example.Longest".to_owned());
/// let options = KeyspaceOptions { merge_operator, ..Default::default() };
/// let words = db.create_keyspace_with("words", options)?;
/// words.merge("longest", "ein")?;
/// words.merge("longest", "einundzwanzig")?;
/// words.merge("longest", "zwei")?;
/// assert_eq!(words.get("longest")?.unwrap(), "einundzwanzig");
/// # Ok::<(), cleavedb::Error>(())
/// ```
pub trait MergeOperator: Send + Sync {
    /// Returns the name that is recorded with the keyspace. It must not begin with `cleavedb.`,
    /// which the built-in operators do.
    fn name(&self) -> &str;

    /// Returns the value that the operands, oldest first and at least one, make of `base`, the
    /// value before them; `None` if the key had none.
    fn full(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>>;

    /// Returns one operand that does what `older` and then `newer` do, or `None` if there is none.
    /// It saves space, and reads the time to merge both. How operands are grouped must not
    /// matter: any neighbours may be combined, combined ones too.
    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let _ = (key, older, newer);
        None
    }

    /// Returns an error for an operand that can never work; it is not written then.
    fn check(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        let _ = (key, operand);
        Ok(())
    }
}
