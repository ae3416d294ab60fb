//! Writes what a source has to keyspaces, which must be empty.
//!
//! Pairs whose keys ascend are ingested, in pieces: each takes effect as a whole and is durable
//! then, so an import that was interrupted has the source's pairs up to some key. From the first
//! key that does not ascend on, pairs are written in batches.

use super::source::{ImportPair, Source};
use crate::progress::Progress;
use crate::text::{human_count, shown_key};
use cleavedb::{
    DEFAULT_KEYSPACE, Db, Durability, Error, IngestOptions, Ingestion, Keyspace, Result,
    WriteBatch, WriteOptions,
};
use std::mem;

/// An ingest ends after this many bytes, which are what an interruption costs at most.
const PIECE_BYTES: u64 = 256 << 20;
const BATCH_BYTES: usize = 1 << 20;
const BATCH_PAIRS: usize = 1000;

/// What was imported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ImportCount {
    pub(crate) pairs: u64,
    pub(crate) bytes: u64,
    /// Pairs that an interrupted import had brought.
    pub(crate) skipped: u64,
}

impl ImportCount {
    fn add(&mut self, pair: &ImportPair) {
        self.pairs += 1;
        self.bytes += (pair.key.len() + pair.value.len()) as u64;
    }
}

/// How keyspaces are filled.
#[derive(Debug, Clone)]
pub(crate) struct FillOptions {
    /// The keyspace for the part without a name, or the one that is called as our default is.
    pub(crate) keyspace: String,
    /// Go on where an import was interrupted.
    pub(crate) resume: bool,
    /// The bytes after which an ingest ends.
    pub(crate) piece_bytes: u64,
}

impl FillOptions {
    pub(crate) fn new(keyspace: &str, resume: bool) -> Self {
        FillOptions { keyspace: keyspace.into(), resume, piece_bytes: PIECE_BYTES }
    }

    /// Returns the keyspace's name for a part.
    pub(crate) fn keyspace_of(&self, part: String) -> String {
        if part.is_empty() || part == DEFAULT_KEYSPACE { self.keyspace.clone() } else { part }
    }
}

/// Writes all parts of a source, each to its keyspace.
pub(crate) fn fill(db: &Db, source: &mut dyn Source, options: &FillOptions) -> Result<ImportCount> {
    let mut progress = Progress::new("pairs", true);
    let mut count = ImportCount::default();
    while let Some(part) = source.next_part()? {
        let keyspace = db.open_or_create_keyspace(&options.keyspace_of(part))?;
        let last = last_key(&keyspace, options)?;
        let mut filler = Filler::new(db, &keyspace, options, count)?;
        let behind = last.filter(|_| source.ascends());
        let filled = filler.fill(source, behind, &mut progress);
        let ended = filler.end();
        count = filler.count;
        // Whatever stopped the reading, what came before it is stored.
        filled.and(ended).map_err(|error| after_stored(&error, &keyspace, count))?;
    }
    Ok(count)
}

/// Returns the last key of a keyspace with pairs, which is refused unless an import goes on.
fn last_key(keyspace: &Keyspace, options: &FillOptions) -> Result<Option<Vec<u8>>> {
    let Some((last, _)) = keyspace.last_key_value()? else { return Ok(None) };
    if options.resume {
        return Ok(Some(last));
    }
    let what = format!(
        "the keyspace {:?} has pairs already, the last under {}",
        keyspace.name(),
        shown_key(&last)
    );
    Err(Error::already_exists(what).advise(
        "choose a new keyspace with -k, or go on with an import that was interrupted with --resume",
    ))
}

/// Adds to an error how far the import came.
fn after_stored(error: &Error, keyspace: &Keyspace, count: ImportCount) -> Error {
    let Ok(Some((last, _))) = keyspace.last_key_value() else { return error.clone() };
    let advice = error.advice().unwrap_or("remove the cause");
    error.clone().advise(format!(
        "{advice}; {} pairs are stored, the last of keyspace {:?} is {}: --resume goes on",
        human_count(count.pairs + count.skipped),
        keyspace.name(),
        shown_key(&last)
    ))
}

struct Filler<'a> {
    db: &'a Db,
    keyspace: &'a Keyspace,
    options: &'a FillOptions,
    ingestion: Option<Ingestion<'a>>,
    /// What the ingestion has that is not stored yet.
    piece: ImportCount,
    batch: WriteBatch,
    /// The key before, as long as keys ascend.
    last: Option<Vec<u8>>,
    count: ImportCount,
}

impl<'a> Filler<'a> {
    fn new(
        db: &'a Db,
        keyspace: &'a Keyspace,
        options: &'a FillOptions,
        count: ImportCount,
    ) -> Result<Self> {
        let ingestion = Some(keyspace.begin_ingest(&IngestOptions::default())?);
        let (piece, batch) = (ImportCount::default(), WriteBatch::new());
        Ok(Filler { db, keyspace, options, ingestion, piece, batch, last: None, count })
    }

    fn fill(
        &mut self,
        source: &mut dyn Source,
        behind: Option<Vec<u8>>,
        progress: &mut Progress,
    ) -> Result<()> {
        let mut pair = ImportPair::default();
        while source.next(&mut pair)? {
            if behind.as_ref().is_some_and(|last| pair.key <= *last) {
                self.count.skipped += 1;
            } else {
                self.put(&pair)?;
            }
            let done = self.count.pairs + self.count.skipped + self.piece.pairs;
            progress.show(done, source.share());
        }
        Ok(())
    }

    fn put(&mut self, pair: &ImportPair) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| *last >= pair.key) {
            // What was in order takes effect first, so that what follows counts.
            self.end_piece()?;
            self.ingestion = None;
        }
        let Some(ingestion) = &mut self.ingestion else { return self.put_in_batch(pair) };
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(&pair.key);
        match pair.expires {
            Some(time) => ingestion.put_expiring(&pair.key, &pair.value, time)?,
            None => ingestion.put(&pair.key, &pair.value)?,
        }
        self.piece.add(pair);
        if self.piece.bytes >= self.options.piece_bytes {
            self.end_piece()?;
        }
        Ok(())
    }

    fn put_in_batch(&mut self, pair: &ImportPair) -> Result<()> {
        match pair.expires {
            Some(time) => {
                self.batch.put_expiring(self.keyspace, &pair.key, &pair.value, time);
            }
            None => {
                self.batch.put(self.keyspace, &pair.key, &pair.value);
            }
        }
        self.piece.add(pair);
        let is_full = self.batch.len() >= BATCH_PAIRS || self.batch.bytes() >= BATCH_BYTES;
        if is_full { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<()> {
        // Taken first, so that nothing counts whose batch fails.
        let piece = mem::take(&mut self.piece);
        let options = WriteOptions::new().durability(Some(Durability::Os));
        self.db.write_with(mem::take(&mut self.batch), &options)?;
        self.add_stored(piece);
        Ok(())
    }

    /// Has the piece take effect, and begins the next one.
    fn end_piece(&mut self) -> Result<()> {
        if let Some(ingestion) = self.ingestion.take() {
            let piece = mem::take(&mut self.piece);
            ingestion.finish()?;
            self.add_stored(piece);
            self.ingestion = Some(self.keyspace.begin_ingest(&IngestOptions::default())?);
        }
        Ok(())
    }

    fn add_stored(&mut self, piece: ImportCount) {
        self.count.pairs += piece.pairs;
        self.count.bytes += piece.bytes;
    }

    /// Stores what was put and not yet stored.
    fn end(&mut self) -> Result<()> {
        self.end_piece()?;
        // An empty batch is written, too: it may hold the error of a pair that was refused.
        self.write_batch()?;
        self.db.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Keys of two digits, and those of two special pairs, in this order, until one that fails.
    struct Numbers {
        numbers: Vec<u32>,
        fails_at: Option<u32>,
        ascends: bool,
        at: usize,
        is_begun: bool,
    }

    impl Numbers {
        fn new(numbers: &[u32], fails_at: Option<u32>, ascends: bool) -> Self {
            Numbers { numbers: numbers.to_vec(), fails_at, ascends, at: 0, is_begun: false }
        }
    }

    impl Source for Numbers {
        fn next_part(&mut self) -> Result<Option<String>> {
            Ok((!std::mem::replace(&mut self.is_begun, true)).then(String::new))
        }

        fn next(&mut self, pair: &mut ImportPair) -> Result<bool> {
            let Some(number) = self.numbers.get(self.at) else { return Ok(false) };
            self.at += 1;
            if self.fails_at == Some(*number) {
                return Err(Error::corruption("damaged"));
            }
            match number {
                // A batch of its own, and a key over the limit.
                100 => pair.set(b"100", &vec![0; BATCH_BYTES]),
                101 => pair.set(&vec![0; cleavedb::MAX_KEY_BYTES + 1], b"value"),
                _ => pair.set(format!("{number:02}").as_bytes(), b"value"),
            }
            Ok(true)
        }

        fn ascends(&self) -> bool {
            self.ascends
        }

        fn share(&self) -> Option<f64> {
            None
        }
    }

    fn keys(keyspace: &Keyspace) -> Vec<String> {
        keyspace.keys().map(|key| String::from_utf8(key.unwrap()).unwrap()).collect()
    }

    fn options(resume: bool) -> FillOptions {
        FillOptions { piece_bytes: 30, ..FillOptions::new(DEFAULT_KEYSPACE, resume) }
    }

    #[test]
    fn an_import_goes_on_behind_the_last_key() {
        let dir = tempfile::tempdir().unwrap();
        let db = cleavedb::open(dir.path()).unwrap();
        let all: Vec<u32> = (0..50).collect();
        let error = fill(&db, &mut Numbers::new(&all, Some(33), true), &options(false));
        let told = error.unwrap_err().to_string();
        assert!(told.contains("33 pairs are stored") && told.contains("\"32\""), "{told}");
        assert_eq!(keys(&db.default_keyspace()).len(), 33);
        let error = fill(&db, &mut Numbers::new(&all, None, true), &options(false)).unwrap_err();
        assert!(error.to_string().contains("--resume"), "{error}");
        let ingests = db.stats().ingests;
        let count = fill(&db, &mut Numbers::new(&all, None, true), &options(true)).unwrap();
        assert_eq!((count.pairs, count.skipped), (17, 33));
        assert!(db.stats().ingests >= ingests + 4, "17 pairs of 7 bytes are pieces of 30 bytes");
        assert_eq!(keys(&db.default_keyspace()).len(), 50);
    }

    #[test]
    fn keys_in_any_order_are_imported_and_the_last_value_counts() {
        let dir = tempfile::tempdir().unwrap();
        let db = cleavedb::open(dir.path()).unwrap();
        let mixed: Vec<u32> = (10..40).chain(0..20).chain([39, 5]).collect();
        fill(&db, &mut Numbers::new(&mixed, Some(15), false), &options(false)).unwrap_err();
        fill(&db, &mut Numbers::new(&mixed, None, false), &options(true)).unwrap();
        let expected: BTreeSet<_> = mixed.iter().map(|number| format!("{number:02}")).collect();
        assert_eq!(keys(&db.default_keyspace()), expected.into_iter().collect::<Vec<_>>());
    }

    /// A pair that the database refuses adds no operation to the batch, but an error. As the last
    /// one behind a full batch it was left out, and the import succeeded: an empty batch was not
    /// written. Now it is, and what it fails with is told; none of its pairs count.
    #[test]
    fn a_refused_pair_in_a_batch_of_its_own_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let db = cleavedb::open(dir.path()).unwrap();
        let mut source = Numbers::new(&[20, 100, 101], None, false);
        let error = fill(&db, &mut source, &options(false)).unwrap_err().to_string();
        assert!(error.contains("a key of 65537 bytes is over the limit"), "{error}");
        assert!(error.contains("2 pairs are stored"), "{error}");
    }
}
