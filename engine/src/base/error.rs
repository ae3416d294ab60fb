//! The one error type of the engine: it says what happened, where, and what to do about it.

use super::json::quoted;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of bytes of a key that a message shows.
const SHOWN_KEY_BYTES: usize = 64;

/// The result of every fallible call of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an [`Error`], which says what a caller can do about it. Programs decide by the kind;
/// people read the message. Two kinds are distinct only if the right reaction differs.
///
/// ```
/// # let dir = cleavedb::doc_dir("error-kind");
/// use cleavedb::{Db, ErrorKind, Options};
/// let options = Options { create_if_missing: false, ..Options::default() };
/// let error = Db::builder(&dir).options(options).open().err().unwrap();
/// match error.kind() {
///     ErrorKind::NotFound => println!("nothing to open yet"),
///     ErrorKind::Locked => println!("another process holds it open"),
///     _ => panic!("{error}"),
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused a call. Read the cause and the file in the error, mend that,
    /// and try again. After a failed write or sync, the database reports whether it still takes
    /// writes.
    Io,
    /// Bytes on disk differ from what was written. Restore the file that the error names, or run a
    /// repair, which keeps everything that is intact.
    Corruption,
    /// The disk or the quota is full. Free space: writing then resumes by itself. Reads go on
    /// meanwhile.
    DiskFull,
    /// The database takes no writes: it was opened read-only, or a failed sync or a defect turned
    /// it read-only. Reads still work. To write, open it anew, without `read_only`.
    ReadOnly,
    /// Another process or another handle holds the database open, and at least one of the two is
    /// not read-only. Close it there, or try again later.
    Locked,
    /// The database was closed, or is closing. Open it again.
    Closed,
    /// A database, a keyspace or a file that must exist does not. Check the name or the path, or
    /// create it. A key that is missing is never an error.
    NotFound,
    /// The database or directory that the call was to create exists already. Choose another place,
    /// or use the existing one.
    AlreadyExists,
    /// An argument of the call can never work: a key, value or batch that is too large, an invalid
    /// name, a snapshot or keyspace of another database, or the directory of another store. Pass
    /// something else; a retry cannot succeed.
    InvalidArgument,
    /// A setting is out of its range, or contradicts another one or what the database was created
    /// with, such as its comparator. Change the setting that the error names.
    InvalidOption,
    /// The call cannot be made in the present state, such as reading the value of a cursor that
    /// stands on no entry. Bring about the state that the error names first.
    WrongState,
    /// The keyspace of this handle was dropped. Release the handle; a keyspace that was created
    /// later under the same name has a handle of its own.
    KeyspaceDropped,
    /// The file format, codec or feature is unknown to this build. Use a newer build, or one with
    /// the feature that the error names.
    Unsupported,
    /// A limit that cannot be raised is reached, such as the last sequence number, or the memory
    /// for the keys that a transaction has read. The error says what to do.
    LimitReached,
    /// Somebody else wrote what a transaction had read, or it has expired, or what a batch requires
    /// is not so. Nothing was written. Read again and try again;
    /// [`Db::transact`](crate::Db::transact) does.
    Conflict,
    /// The log no longer has the changes behind the number that a consumer of the change feed has
    /// seen. Copy what there is at a snapshot, and go on from the number of that; a consumer that
    /// pins the log does not get here. [`Db::changes`](crate::Db::changes) has the steps.
    ChangesGone,
    /// The engine has a defect: it panicked, or one of its invariants is broken. Please report it
    /// with the message. To go on, close the database and open it again.
    Internal,
}

/// An error with its place and advice. It is cheap to clone, so that every writer of a commit group
/// can receive the same error.
///
/// Programs decide by [`Error::kind`]; the rest is for people:
///
/// ```
/// let error = cleavedb::open("/dev/null/nothing").unwrap_err();
/// eprintln!("{}", error.message());
/// if let Some(file) = error.file() {
///     eprintln!("the file is {}, the offset {:?}", file.display(), error.offset());
/// }
/// if let Some(advice) = error.advice() {
///     eprintln!("{advice}");
/// }
/// // All of it in one line, for a log.
/// eprintln!("{error}");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    advice: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Returns a key as errors show it: in quotes, and cut off if it is long.
pub fn shown_key(key: &[u8]) -> String {
    let shown = key[..key.len().min(SHOWN_KEY_BYTES)].escape_ascii();
    let rest = if key.len() > SHOWN_KEY_BYTES { "…" } else { "" };
    format!("\"{shown}{rest}\"")
}

impl Error {
    fn build(kind: ErrorKind, message: String) -> Self {
        Error(Arc::new(Inner {
            kind,
            message,
            file: None,
            offset: None,
            advice: None,
            source: None,
        }))
    }

    /// Makes an error of `kind` with a message that says what happened.
    ///
    /// Programs that pass errors on, such as a binding or a tool, add the place and the advice:
    ///
    /// ```
    /// use cleavedb::{Error, ErrorKind};
    /// let error = Error::new(ErrorKind::Corruption, "the checksum does not match")
    ///     .in_file("7.seg".as_ref())
    ///     .at(4096)
    ///     .advise("restore the file");
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the checksum does not match, in 7.seg at byte 4096; restore the file"
    /// );
    /// ```
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::build(kind, message.into())
    }

    /// Makes a [`ErrorKind::Corruption`] error: stored bytes are not valid.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::Corruption, message.into())
    }

    /// Makes an [`ErrorKind::InvalidArgument`] error: an argument can never work.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::InvalidArgument, message.into())
    }

    /// Makes an [`ErrorKind::InvalidOption`] error: a setting is out of range or contradicts
    /// another one.
    pub fn invalid_option(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::InvalidOption, message.into())
    }

    /// Makes an [`ErrorKind::WrongState`] error: the call cannot be made in the present state.
    pub fn wrong_state(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::WrongState, message.into())
    }

    /// Makes an [`ErrorKind::NotFound`] error: a required database, keyspace or file does not
    /// exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::NotFound, message.into())
    }

    /// Makes an [`ErrorKind::AlreadyExists`] error: what the call was to create exists already.
    pub fn already_exists(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::AlreadyExists, message.into())
    }

    /// Makes an [`ErrorKind::Unsupported`] error: this build lacks a format, codec or feature.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::Unsupported, message.into())
    }

    /// Makes an [`ErrorKind::Closed`] error: the database of the called object was closed.
    pub fn closed(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::Closed, message.into())
    }

    /// Makes an [`ErrorKind::KeyspaceDropped`] error for the keyspace called `name`.
    pub fn keyspace_dropped(name: &str) -> Self {
        Self::build(ErrorKind::KeyspaceDropped, format!("keyspace {name:?} was dropped"))
    }

    /// Makes an [`ErrorKind::Conflict`] error about `key` in the keyspace called `keyspace`.
    pub fn conflict(keyspace: &str, key: &[u8], what: &str) -> Self {
        Self::about_key(ErrorKind::Conflict, keyspace, key, what)
    }

    /// Makes an error about `key` in the keyspace called `keyspace`.
    pub(crate) fn about_key(kind: ErrorKind, keyspace: &str, key: &[u8], what: &str) -> Self {
        Self::build(kind, format!("the key {} in keyspace {keyspace:?} {what}", shown_key(key)))
    }

    /// Makes an [`ErrorKind::Internal`] error: the engine has a defect.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::build(ErrorKind::Internal, message.into())
    }

    /// Makes an error from a system call that failed with `source` while doing `what` to `file`.
    /// I9: a full disk or quota gets a kind of its own, [`ErrorKind::DiskFull`].
    pub fn io(what: &str, file: &Path, source: io::Error) -> Self {
        let full =
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let kind = if full { ErrorKind::DiskFull } else { ErrorKind::Io };
        let mut inner = Inner {
            kind,
            message: format!("cannot {what}: {source}"),
            file: Some(file.to_path_buf()),
            offset: None,
            advice: None,
            source: Some(Arc::new(source)),
        };
        if full {
            inner.advice = Some("free space on this file system; writing then resumes".into());
        }
        Error(Arc::new(inner))
    }

    fn edit(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = match Arc::try_unwrap(self.0) {
            Ok(inner) => inner,
            Err(shared) => Inner {
                kind: shared.kind,
                message: shared.message.clone(),
                file: shared.file.clone(),
                offset: shared.offset,
                advice: shared.advice.clone(),
                source: shared.source.clone(),
            },
        };
        change(&mut inner);
        Error(Arc::new(inner))
    }

    /// Sets the file, unless a deeper layer already did.
    #[must_use]
    pub fn in_file(self, file: &Path) -> Self {
        if self.0.file.is_some() {
            return self;
        }
        self.edit(|inner| inner.file = Some(file.to_path_buf()))
    }

    /// Sets the byte offset, unless a deeper layer already did.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        if self.0.offset.is_some() {
            return self;
        }
        self.edit(|inner| inner.offset = Some(offset))
    }

    /// Sets the advice: what the user should do next.
    #[must_use]
    pub fn advise(self, advice: impl Into<String>) -> Self {
        let advice = advice.into();
        self.edit(|inner| inner.advice = Some(advice))
    }

    /// Returns the kind, which says how to react.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message: what happened, without place and advice.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the file concerned, or `None` if no file is.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// Returns the byte offset in [`Error::file`], or `None` if it is unknown.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns what to do about the error, or `None` if there is no advice.
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.as_deref()
    }

    /// Returns the error as one JSON object: `kind`, `message`, `file`, `offset` and `advice`, of
    /// which the last three may be null.
    ///
    /// ```
    /// let error = cleavedb::Error::corruption("a checksum does not match").at(4096);
    /// assert!(error.to_json().starts_with("{\"kind\":\"Corruption\",\"message\":\"a checksum"));
    /// ```
    pub fn to_json(&self) -> String {
        let text = |text: Option<String>| text.map_or("null".to_owned(), |text| quoted(&text));
        format!(
            "{{\"kind\":\"{:?}\",\"message\":{},\"file\":{},\"offset\":{},\"advice\":{}}}",
            self.kind(),
            quoted(self.message()),
            text(self.file().map(|file| file.display().to_string())),
            self.offset().map_or("null".to_owned(), |offset| offset.to_string()),
            text(self.advice().map(str::to_owned)),
        )
    }
}

/// Adds the file to the error of a result.
pub trait InFile<T> {
    /// Sets the file of the error, unless a deeper layer already did.
    fn in_file(self, file: &Path) -> Result<T>;
}

impl<T> InFile<T> for Result<T> {
    fn in_file(self, file: &Path) -> Result<T> {
        self.map_err(|error| error.in_file(file))
    }
}

/// Turns a failed system call into an [`Error`] that names the file.
pub trait IoContext<T> {
    /// Turns the failure into an [`Error`]; `what` completes the sentence "cannot …".
    fn doing(self, what: &str, file: &Path) -> Result<T>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn doing(self, what: &str, file: &Path) -> Result<T> {
        self.map_err(|source| Error::io(what, file, source))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(file) = &self.0.file {
            write!(f, ", in {}", file.display())?;
        }
        if let Some(offset) = self.0.offset {
            write!(f, " at byte {offset}")?;
        }
        if let Some(advice) = &self.0.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_where_and_what_to_do() {
        let error = Error::corruption("record checksum does not match")
            .in_file(Path::new("000007.seg"))
            .at(4096)
            .advise("restore this file from a checkpoint");
        assert_eq!(
            error.to_string(),
            "record checksum does not match, in 000007.seg at byte 4096; \
             restore this file from a checkpoint"
        );
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn the_deepest_place_wins() {
        let error = Error::corruption("x").in_file(Path::new("a")).at(1);
        let error = error.in_file(Path::new("b")).at(2);
        assert_eq!((error.file(), error.offset()), (Some(Path::new("a")), Some(1)));
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Error::io("write", Path::new("a"), full).kind(), ErrorKind::DiskFull);
        let other = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(Error::io("write", Path::new("a"), other).kind(), ErrorKind::Io);
    }
}
