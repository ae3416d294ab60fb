//! CleaveDB in one of its modes.

use cleavedb::{
    Codec, Db, Durability, GcOptions, Keyspace, KeyspaceOptions, Options, Separation, WriteOptions,
};

use super::{Engine, Settings, SpaceSettings, Visit, said};
use crate::generator;

struct Cleave {
    db: Db,
    keyspace: Keyspace,
    synced: WriteOptions,
}

pub fn open(settings: &Settings, separation: Separation) -> Result<Box<dyn Engine>, String> {
    let keyspace = KeyspaceOptions {
        separation,
        separation_threshold: settings.threshold as usize,
        block_codec: Codec::None,
        value_codec: Codec::None,
        filter_bits_per_key: settings.filter_bits,
        memtable_bytes: settings.buffer_bytes,
        // L1 is as large as four memtables, as it is by default.
        ..KeyspaceOptions::default()
    };
    let options = Options {
        durability: Durability::Os,
        cache_bytes: settings.cache_bytes,
        // Two memtables, as RocksDB and LevelDB have.
        max_immutable_memtables: 1,
        // One more thread flushes.
        compaction_threads: (settings.background_threads as usize).saturating_sub(1).max(1),
        keyspace,
        gc: gc_of(&settings.space),
        ..Options::default()
    };
    let db = Db::builder(&settings.path).options(options).open().map_err(said)?;
    let keyspace = db.default_keyspace();
    Ok(Box::new(Cleave { db, keyspace, synced: WriteOptions::new().durability(Durability::Sync) }))
}

fn gc_of(space: &SpaceSettings) -> GcOptions {
    let usual = GcOptions::default();
    GcOptions {
        max_space_amplification: space.ceiling.unwrap_or(usual.max_space_amplification),
        settled_space_amplification: space.settled.unwrap_or(usual.settled_space_amplification),
        space_allowance_bytes: space.allowance_bytes.unwrap_or(usual.space_allowance_bytes),
        punch: space.punch.unwrap_or(usual.punch),
        ..usual
    }
}

impl Engine for Cleave {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        if sync {
            return self.keyspace.put_with(key, value, &self.synced).map_err(said);
        }
        self.keyspace.put(key, value).map_err(said)
    }

    fn delete(&self, key: &[u8]) -> Result<(), String> {
        self.keyspace.delete(key).map_err(said)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        Ok(self.keyspace.get_pinned(key, read).map_err(said)?.is_some())
    }

    fn get_many(
        &self,
        keys: &[[u8; generator::KEY_BYTES]],
        read: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<bool, String> {
        for (index, found) in self.keyspace.multi_get(keys).into_iter().enumerate() {
            match found.map_err(said)? {
                Some(value) => read(index, &value),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn scan(
        &self,
        from: &[u8],
        pairs: u64,
        keys_only: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), String> {
        // As in the other engines, pairs are lent from where they lie.
        let mut cursor = self.keyspace.cursor().map_err(said)?;
        cursor.seek(from).map_err(said)?;
        let mut left = pairs;
        while cursor.valid() && left > 0 {
            let goes_on = if keys_only {
                visit(cursor.key(), None)?
            } else {
                let (key, value) = cursor.pair().map_err(said)?;
                visit(key, Some(value))?
            };
            if !goes_on {
                break;
            }
            cursor.next().map_err(said)?;
            left -= 1;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        let Cleave { db, keyspace, .. } = *self;
        drop(keyspace);
        db.close().map_err(said)
    }
}
