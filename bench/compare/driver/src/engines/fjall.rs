//! fjall, with its values in its tables or separated.

use fjall::config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};
use std::sync::Arc;

use super::{Engine, Settings, Visit, said};

struct Fjall {
    db: Database,
    keyspace: Keyspace,
}

pub fn open(settings: &Settings, separated: bool) -> Result<Box<dyn Engine>, String> {
    let db = Database::builder(&settings.path)
        .cache_size(settings.cache_bytes)
        .journal_compression(CompressionType::None)
        .worker_threads(settings.background_threads.max(1) as usize)
        .open()
        .map_err(said)?;
    let bloom = BloomConstructionPolicy::BitsPerKey(settings.filter_bits as f32);
    let mut options = KeyspaceCreateOptions::default()
        .max_memtable_size(settings.buffer_bytes)
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bloom)))
        // Tables as large as the memtable, as they are by default.
        .compaction_strategy(Arc::new(
            fjall::compaction::Leveled::default().with_table_target_size(settings.buffer_bytes),
        ));
    if separated {
        options = options.with_kv_separation(Some(
            KvSeparationOptions::default()
                .compression(CompressionType::None)
                .separation_threshold(settings.threshold as u32),
        ));
    }
    let keyspace = db.keyspace("compare", || options).map_err(said)?;
    Ok(Box::new(Fjall { db, keyspace }))
}

impl Engine for Fjall {
    fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<(), String> {
        self.keyspace.insert(key, value).map_err(said)?;
        if sync { self.db.persist(PersistMode::SyncData).map_err(said) } else { Ok(()) }
    }

    fn delete(&self, key: &[u8]) -> Result<(), String> {
        self.keyspace.remove(key).map_err(said)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool, String> {
        let found = self.keyspace.get(key).map_err(said)?;
        found.as_deref().map(read);
        Ok(found.is_some())
    }

    fn scan(
        &self,
        from: &[u8],
        pairs: u64,
        keys_only: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), String> {
        for guard in self.keyspace.range(from..).take(pairs as usize) {
            let goes_on = if keys_only {
                visit(&guard.key().map_err(said)?, None)?
            } else {
                let (key, value) = guard.into_inner().map_err(said)?;
                visit(&key, Some(&value))?
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}
