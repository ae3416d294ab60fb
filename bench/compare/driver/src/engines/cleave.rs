//! CleaveDB in one of its modes.

use cleavedb::{
    Codec, Db, Durability, Keyspace, KeyspaceOptions, Options, Separation, WriteOptions,
};

use super::{Engine, Settings, Visit, said};

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
        // As large as the memtable, as it is by default.
        level_base_bytes: settings.buffer_bytes,
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
        ..Options::default()
    };
    let db = Db::builder(&settings.path).options(options).open().map_err(said)?;
    let keyspace = db.default_keyspace();
    Ok(Box::new(Cleave { db, keyspace, synced: WriteOptions::new().durability(Durability::Sync) }))
}

impl Engine for Cleave {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        if sync {
            return self.keyspace.put_with(key, value, &self.synced).map_err(said);
        }
        self.keyspace.put(key, value).map_err(said)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        Ok(self.keyspace.get_pinned(key, read).map_err(said)?.is_some())
    }

    fn scan(
        &self,
        from: &[u8],
        pairs: u64,
        keys_only: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), String> {
        let range = self.keyspace.range(from..);
        if keys_only {
            for key in range.keys().take(pairs as usize) {
                if !visit(&key.map_err(said)?, None)? {
                    break;
                }
            }
            return Ok(());
        }
        for entry in range.take(pairs as usize) {
            let (key, value) = entry.map_err(said)?;
            if !visit(&key, Some(&value))? {
                break;
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        let Cleave { db, keyspace, .. } = *self;
        drop(keyspace);
        db.close().map_err(said)
    }
}
