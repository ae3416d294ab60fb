//! Compares what a source has with what its keyspaces have: counts, and a checksum that does not
//! depend on the order.

use super::fill::FillOptions;
use super::source::{ImportPair, Source};
use crate::progress::Progress;
use crate::text::human_count;
use cleavedb::{Db, Error, ErrorKind, ReadOptions, Result};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::Xxh3;

/// The digest of pairs, in whatever order they come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PairDigest {
    pub(crate) pairs: u64,
    /// The sum of the pairs' hashes. Unlike their exclusive or, it tells a pair that came twice.
    sum: u128,
}

impl PairDigest {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        let mut hash = Xxh3::new();
        hash.update(&(key.len() as u64).to_le_bytes());
        hash.update(key);
        hash.update(value);
        self.pairs += 1;
        self.sum = self.sum.wrapping_add(hash.digest128());
    }

    /// Returns the checksum, short enough to be read aloud.
    pub(crate) fn checksum(&self) -> String {
        format!("{:016x}", self.sum as u64 ^ (self.sum >> 64) as u64)
    }
}

/// Digests by the names of keyspaces.
pub(crate) type Digests = BTreeMap<String, PairDigest>;

/// A source whose pairs are digested while they are read, because it cannot be read twice.
pub(crate) struct DigestedSource<'a> {
    source: Box<dyn Source>,
    options: &'a FillOptions,
    keyspace: String,
    pub(crate) digests: Digests,
}

impl<'a> DigestedSource<'a> {
    pub(crate) fn new(source: Box<dyn Source>, options: &'a FillOptions) -> Self {
        DigestedSource { source, options, keyspace: String::new(), digests: Digests::new() }
    }
}

impl Source for DigestedSource<'_> {
    fn next_part(&mut self) -> Result<Option<String>> {
        let part = self.source.next_part()?;
        if let Some(part) = &part {
            self.keyspace = self.options.keyspace_of(part.clone());
            self.digests.entry(self.keyspace.clone()).or_default();
        }
        Ok(part)
    }

    fn next(&mut self, pair: &mut ImportPair) -> Result<bool> {
        let is_there = self.source.next(pair)?;
        if let Some(digest) = self.digests.get_mut(&self.keyspace).filter(|_| is_there) {
            digest.add(&pair.key, &pair.value);
        }
        Ok(is_there)
    }

    fn ascends(&self) -> bool {
        self.source.ascends()
    }

    fn share(&self) -> Option<f64> {
        self.source.share()
    }
}

/// Reads a source to its end.
pub(crate) fn digest_source(source: &mut dyn Source, options: &FillOptions) -> Result<Digests> {
    let mut digests = Digests::new();
    let mut progress = Progress::new("pairs verified", true);
    let (mut pair, mut count) = (ImportPair::default(), 0);
    while let Some(part) = source.next_part()? {
        let digest = digests.entry(options.keyspace_of(part)).or_default();
        while source.next(&mut pair)? {
            digest.add(&pair.key, &pair.value);
            count += 1;
            progress.show(count, source.share());
        }
    }
    Ok(digests)
}

/// Compares the digests of a source with the keyspaces. Returns that of them all.
pub(crate) fn compare(db: &Db, source: &Digests) -> Result<PairDigest> {
    let mut all = PairDigest::default();
    let mut progress = Progress::new("pairs verified", true);
    for (name, expected) in source {
        let keyspace = db.keyspace(name)?;
        let options = ReadOptions::new().fill_cache(false);
        let mut found = PairDigest::default();
        for entry in keyspace.range_with(.., &options) {
            let (key, value) = entry?;
            found.add(&key, &value);
            progress.show(all.pairs + found.pairs, None);
        }
        if found != *expected {
            return Err(different(name, *expected, found));
        }
        all.pairs += found.pairs;
        all.sum = all.sum.wrapping_add(found.sum);
    }
    Ok(all)
}

fn different(name: &str, expected: PairDigest, found: PairDigest) -> Error {
    let what = format!(
        "keyspace {name:?} has {} pairs with checksum {}, and the source {} with {}",
        human_count(found.pairs),
        found.checksum(),
        human_count(expected.pairs),
        expected.checksum(),
    );
    let advice = match found.pairs < expected.pairs {
        true => "see whether the source has keys several times, or expired ones",
        false => "see whether somebody wrote to the keyspace; else import into a new one",
    };
    Error::new(ErrorKind::WrongState, what).advise(advice)
}
