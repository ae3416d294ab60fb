//! No engine, but what a device gives to one that needs nothing beside the pairs: one write call
//! for each put, behind the last one, and one read call for each get. Pairs have one length.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::RwLock;

use super::{Engine, Settings, Visit, said};
use crate::c::advice;
use crate::generator;

/// The place of a key that was never written.
const NOWHERE: u32 = u32::MAX;
/// Keys beyond are those of mixes that insert, which it does not do.
const MOST_KEYS: usize = 1 << 31;

struct Device {
    file: File,
    /// Where the places are kept while it is closed.
    index: PathBuf,
    places: RwLock<Places>,
}

/// Which pair of the file each key has.
#[derive(Default)]
struct Places {
    of: Vec<u32>,
    pairs: u32,
    pair_bytes: u64,
}

pub fn open(settings: &Settings) -> Result<Box<dyn Engine>, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(settings.path.join("pairs")).map_err(said)?;
    advice::expect_random(&file)?;
    let index = settings.path.join("places");
    let places = match std::fs::read(&index) {
        Ok(bytes) => {
            let bytes_there = file.metadata().map_err(said)?.len();
            Places::decode(&bytes, bytes_there).ok_or("the places are not whole")?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Places::default(),
        Err(error) => return Err(said(error)),
    };
    Ok(Box::new(Device { file, index, places: RwLock::new(places) }))
}

impl Places {
    fn decode(bytes: &[u8], bytes_there: u64) -> Option<Places> {
        let (pair_bytes, numbers) = bytes.split_first_chunk()?;
        let pair_bytes = u64::from_le_bytes(*pair_bytes);
        let (of, []) = numbers.as_chunks() else { return None };
        let of = of.iter().map(|number| u32::from_le_bytes(*number)).collect();
        // A store that was closed without a put has no length of pairs.
        let pairs = if bytes_there == 0 { 0 } else { bytes_there.checked_div(pair_bytes)? };
        let pairs = u32::try_from(pairs).ok()?;
        Some(Places { of, pairs, pair_bytes })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.pair_bytes.to_le_bytes().to_vec();
        self.of.iter().for_each(|place| bytes.extend_from_slice(&place.to_le_bytes()));
        bytes
    }

    /// Gives a key the place behind all others; returns its offset.
    fn add(&mut self, number: usize, pair_bytes: u64) -> u64 {
        self.pair_bytes = pair_bytes;
        if self.of.len() <= number {
            self.of.resize(number + 1, NOWHERE);
        }
        self.of[number] = self.pairs;
        self.pairs += 1;
        u64::from(self.of[number]) * pair_bytes
    }

    /// The offset and the length of a pair.
    fn find(&self, number: usize) -> Option<(u64, usize)> {
        let place = self.of.get(number).filter(|place| **place != NOWHERE)?;
        Some((u64::from(*place) * self.pair_bytes, self.pair_bytes as usize))
    }
}

fn number_of(key: &[u8]) -> Result<usize, String> {
    let number = generator::number_of(key).map(|number| number as usize);
    number.filter(|number| *number < MOST_KEYS).ok_or("a key that it has no place for".into())
}

impl Engine for Device {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        let pair = [key, value].concat();
        let mut places = self.places.write().map_err(said)?;
        let offset = places.add(number_of(key)?, pair.len() as u64);
        drop(places);
        self.file.write_all_at(&pair, offset).map_err(said)?;
        if sync { self.file.sync_data().map_err(said) } else { Ok(()) }
    }

    fn delete(&self, _: &[u8]) -> Result<(), String> {
        Err("a file of pairs has no deletions".into())
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let found = self.places.read().map_err(said)?.find(number_of(key)?);
        let Some((offset, len)) = found else {
            return Ok(false);
        };
        let mut pair = vec![0; len];
        self.file.read_exact_at(&mut pair, offset).map_err(said)?;
        read(&pair[key.len()..]);
        Ok(true)
    }

    fn scan(&self, _: &[u8], _: u64, _: bool, _: &mut Visit<'_>) -> Result<(), String> {
        Err("a file without an order has no scans".into())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        let places = self.places.read().map_err(said)?;
        std::fs::write(&self.index, places.encode()).map_err(said)
    }
}
