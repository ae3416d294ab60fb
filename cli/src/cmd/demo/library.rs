//! The dictionary in the database, and a model of what it must hold in memory: one revision number
//! per word, against which everything read is compared in full.

use super::words::Article;
use crate::random::{Permutation, SplitMix64};
use cleavedb::{Error, Keyspace, Result};

/// The articles and the revision that each has in the database.
pub(super) struct Library {
    pub(super) articles: Vec<Article>,
    revisions: Vec<u64>,
}

impl Library {
    pub(super) fn new(articles: Vec<Article>) -> Self {
        let revisions = vec![0; articles.len()];
        Library { articles, revisions }
    }

    /// Returns the bytes of all words and articles.
    pub(super) fn bytes(&self) -> u64 {
        self.articles.iter().map(Article::bytes).sum()
    }

    /// Writes every article's present revision with a write of its own; returns the bytes.
    pub(super) fn load(&self, keyspace: &Keyspace) -> Result<u64> {
        let mut bytes = 0;
        for (article, &revision) in self.articles.iter().zip(&self.revisions) {
            let text = article.text(revision);
            bytes += (article.word.len() + text.len()) as u64;
            keyspace.put(&article.word, text)?;
        }
        Ok(bytes)
    }

    /// Writes a new revision of the word at `index`; returns the bytes.
    pub(super) fn revise(&mut self, keyspace: &Keyspace, index: usize) -> Result<u64> {
        let article = &self.articles[index];
        let text = article.text(self.revisions[index] + 1);
        keyspace.put(&article.word, &text)?;
        self.revisions[index] += 1;
        Ok((article.word.len() + text.len()) as u64)
    }

    /// Gets `count` random words and compares each; returns the bytes.
    pub(super) fn read_random(&self, keyspace: &Keyspace, count: u64) -> Result<u64> {
        let mut random = SplitMix64::new(2, 0);
        let mut bytes = 0;
        for _ in 0..count {
            let index = random.below(self.articles.len() as u64) as usize;
            let article = &self.articles[index];
            let text = keyspace.get(&article.word)?;
            let revision = text.as_ref().and_then(|text| article.revision_of(text));
            if revision != Some(self.revisions[index]) {
                return Err(wrong(&article.word));
            }
            bytes += text.map_or(0, |text| text.len()) as u64;
        }
        Ok(bytes)
    }

    /// Scans everything in order and compares each word and article; returns the bytes.
    pub(super) fn verify(&self, keyspace: &Keyspace) -> Result<u64> {
        let mut bytes = 0;
        self.walk(keyspace, |index, revision, length| {
            bytes += length;
            revision == self.revisions[index]
        })?;
        Ok(bytes)
    }

    /// Verifies the database after a writer that worked in `round` was killed. Every article must
    /// be as it was before, or as the writer wrote it. The surviving writes must be the writer's
    /// first ones, without a gap, and at least the `acknowledged` ones. Returns the number of
    /// surviving writes.
    pub(super) fn verify_survivors(
        &mut self,
        keyspace: &Keyspace,
        round: &Round,
        acknowledged: u64,
    ) -> Result<u64> {
        let mut survived = vec![false; self.articles.len()];
        let mut revisions = self.revisions.clone();
        self.walk(keyspace, |index, revision, _| {
            if revision == self.revisions[index] {
                return true;
            }
            let Some(write) = round.write_of(index, revision) else { return false };
            survived[write as usize] = true;
            revisions[index] = revision;
            true
        })?;
        let there = prefix_length(&survived).filter(|&there| there >= acknowledged);
        let there = there.ok_or_else(|| {
            let count = survived.iter().filter(|&&there| there).count();
            let message = format!("{acknowledged} writes were acknowledged, {count} were found");
            Error::corruption(message).advise("keep the directory and report it, please")
        })?;
        self.revisions = revisions;
        Ok(there)
    }

    /// Walks over all pairs and the articles side by side; `is_right` gets an article's number, the
    /// revision found and the value's length.
    fn walk(
        &self,
        keyspace: &Keyspace,
        mut is_right: impl FnMut(usize, u64, u64) -> bool,
    ) -> Result<()> {
        let mut cursor = keyspace.cursor()?;
        cursor.seek_to_first()?;
        for (index, article) in self.articles.iter().enumerate() {
            if !cursor.valid() || cursor.key() != article.word.as_bytes() {
                return Err(wrong(&article.word));
            }
            let text = cursor.value()?;
            let revision = article.revision_of(&text).ok_or_else(|| wrong(&article.word))?;
            if !is_right(index, revision, text.len() as u64) {
                return Err(wrong(&article.word));
            }
            cursor.next()?;
        }
        match cursor.valid() {
            true => Err(wrong(&String::from_utf8_lossy(cursor.key()))),
            false => Ok(()),
        }
    }
}

/// Returns the number of surviving writes, or `None` if they are not the first ones.
fn prefix_length(survived: &[bool]) -> Option<u64> {
    let first = survived.iter().take_while(|&&there| there).count();
    let gap = survived[first..].contains(&true);
    (!gap).then_some(first as u64)
}

fn wrong(word: &str) -> Error {
    Error::corruption(format!("the article of {word:?} is not what was written last"))
        .advise("keep the directory and report it, please")
}

/// The writes of one writer before it is killed: one revision of each word, in a random order. The
/// parent and the writer compute the same ones.
pub(super) struct Round {
    number: u64,
    order: Permutation,
    places: Vec<u64>,
}

/// Distance of the revision numbers of two rounds: they never overlap.
const REVISIONS_A_ROUND: u64 = 1_000_000;

impl Round {
    pub(super) fn new(number: u64, words: usize) -> Self {
        let order = Permutation::new(words as u64, number);
        let mut places = vec![0; words];
        for write in 0..words as u64 {
            places[order.at(write) as usize] = write;
        }
        Round { number, order, places }
    }

    /// Returns the word and the revision of write number `write`.
    pub(super) fn nth(&self, write: u64) -> (usize, u64) {
        (self.order.at(write) as usize, (self.number + 1) * REVISIONS_A_ROUND + write)
    }

    /// Returns the number of the write that gave the word at `index` this `revision`, or `None`.
    fn write_of(&self, index: usize, revision: u64) -> Option<u64> {
        let write = self.places[index];
        (self.nth(write).1 == revision).then_some(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_have_no_gap() {
        assert_eq!(prefix_length(&[true, true, false, false]), Some(2));
        assert_eq!(prefix_length(&[]), Some(0));
        assert_eq!(prefix_length(&[true, false, true]), None);
    }

    #[test]
    fn a_round_knows_its_writes() {
        let (first, second) = (Round::new(0, 100), Round::new(1, 100));
        for write in 0..100 {
            let (index, revision) = first.nth(write);
            assert_eq!(first.write_of(index, revision), Some(write));
            assert_eq!(first.write_of(index, revision + 1), None);
            assert_eq!(second.write_of(index, revision), None);
        }
    }
}
