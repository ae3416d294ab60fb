//! Options that LevelDB does not have, see `include/cleavedb/c.h`.

use crate::border::Bytes;
use crate::guard::quiet;
use crate::handle::Handle;
use crate::options::{
    DbOptions, IteratorSettings, ReadSettings, WriteSettings, set, set_durability,
};
use engine::{Codec, Durability, EncryptionKey, Error, Result, Separation, StaleTrigger};
use std::ffi::c_int;
use std::sync::PoisonError;
use std::time::Duration;

/// Converts a number of `cleavedb_durability_…` in the header; 0 is `None`, the database's default.
fn durability(level: c_int, interval_ms: u64) -> Result<Option<Durability>> {
    Ok(Some(match level {
        0 => return Ok(None),
        1 => Durability::Buffered,
        2 => Durability::Os,
        3 => Durability::Sync,
        4 if interval_ms > 0 => Durability::SyncEvery(Duration::from_millis(interval_ms)),
        _ => {
            return Err(Error::invalid_option(format!(
                "durability {level} with an interval of {interval_ms} ms does not exist"
            )));
        }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_durability(
    options: Handle<DbOptions>,
    level: c_int,
    interval_ms: u64,
) {
    set(options, |settings| {
        settings.options.durability = durability(level, interval_ms)?.unwrap_or(Durability::Os);
        Ok(())
    });
}

/// Sets the durability of writes. A `level` that does not exist changes nothing.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_writeoptions_set_durability(
    options: Handle<WriteSettings>,
    level: c_int,
    interval_ms: u64,
) {
    quiet((), || set_durability(options, durability(level, interval_ms)?));
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_separation(options: Handle<DbOptions>, mode: c_int) {
    set(options, |settings| {
        settings.keyspace.separation = Some(match mode {
            0 => Separation::Off,
            1 => Separation::AtWrite,
            2 => Separation::AtFlush,
            3 => Separation::Auto,
            _ => return Err(Error::invalid_option(format!("separation {mode} does not exist"))),
        });
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_separation_threshold(options: Handle<DbOptions>, bytes: usize) {
    set(options, |settings| {
        settings.keyspace.separation_threshold = Some(bytes);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_convert_in_compactions(options: Handle<DbOptions>, value: u8) {
    set(options, |settings| {
        settings.keyspace.convert_in_compactions = Some(value != 0);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_value_compression(options: Handle<DbOptions>, codec: c_int) {
    set(options, |settings| {
        settings.keyspace.value_codec = Some(match codec {
            0 => Codec::None,
            1 => Codec::Lz4,
            2 => Codec::Zstd,
            _ => return Err(Error::invalid_option(format!("codec {codec} does not exist"))),
        });
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_read_only(options: Handle<DbOptions>, value: u8) {
    set(options, |settings| {
        settings.options.read_only = value != 0;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_follow(options: Handle<DbOptions>, value: u8) {
    set(options, |settings| {
        settings.options.follow = value != 0;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_follow_pinned(options: Handle<DbOptions>, value: u8) {
    set(options, |settings| {
        settings.options.follow_pinned = value != 0;
        Ok(())
    });
}

/// Sets how old reads may be, or with `ULLONG_MAX` that only `cleavedb_catch_up` makes them newer.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_follow_every(options: Handle<DbOptions>, milliseconds: u64) {
    set(options, |settings| {
        let every = (milliseconds != u64::MAX).then(|| Duration::from_millis(milliseconds));
        settings.options.follow_every = every;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_max_replay_bytes(options: Handle<DbOptions>, bytes: u64) {
    set(options, |settings| {
        settings.options.max_replay_bytes = bytes;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_segment_bytes(options: Handle<DbOptions>, bytes: u64) {
    set(options, |settings| {
        settings.options.segment_bytes = bytes;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_update_table_bytes(options: Handle<DbOptions>, bytes: u64) {
    set(options, |settings| {
        settings.options.update_table_bytes = bytes;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_control_socket(options: Handle<DbOptions>, v: u8) {
    set(options, |settings| {
        settings.options.control_socket = v != 0;
        Ok(())
    });
}

/// Adds a key of 32 bytes: the current one first, then former ones.
#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_add_encryption_key(
    options: Handle<DbOptions>,
    key: Bytes,
    keylen: usize,
) {
    set(options, |settings| {
        settings.encryption_keys.push(encryption_key(key, keylen)?);
        Ok(())
    });
}

/// Takes a key from C.
pub fn encryption_key(key: Bytes, keylen: usize) -> Result<EncryptionKey> {
    let key = <[u8; 32]>::try_from(key.value(keylen)?).map_err(|_| {
        Error::invalid_option(format!("an encryption key has 32 bytes, not {keylen}"))
    })?;
    Ok(EncryptionKey::new(key))
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_pin_tree(options: Handle<DbOptions>, bytes: u64) {
    set(options, |settings| {
        settings.options.pin_tree = bytes;
        Ok(())
    });
}

/// Converts a number of `cleavedb_early_compaction_…` in the header. The opening refuses an amount
/// that is out of range.
fn stale_trigger(trigger: c_int, amount: f64) -> Result<StaleTrigger> {
    match trigger {
        0 => Ok(StaleTrigger::Off),
        1 => Ok(StaleTrigger::Share(amount)),
        2 if amount >= 0.0 && amount.fract() == 0.0 => Ok(StaleTrigger::Entries(amount as u64)),
        _ => Err(Error::invalid_option(format!(
            "early compaction by {trigger} with an amount of {amount} does not exist"
        ))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_early_compaction(
    options: Handle<DbOptions>,
    trigger: c_int,
    amount: f64,
) {
    set(options, |settings| {
        settings.options.early_compaction = stale_trigger(trigger, amount)?;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_options_set_scan_order(options: Handle<DbOptions>, v: u8) {
    set(options, |settings| {
        settings.options.scan_order = v != 0;
        Ok(())
    });
}

fn change(options: Handle<ReadSettings>, change: impl FnOnce(&mut IteratorSettings) -> Result<()>) {
    quiet((), || {
        let options = options.pin()?;
        change(&mut options.cursor.lock().unwrap_or_else(PoisonError::into_inner))
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_readoptions_set_read_ahead(options: Handle<ReadSettings>, value: u8) {
    change(options, |cursor| {
        cursor.no_read_ahead = value == 0;
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_readoptions_set_lower_bound(
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
) {
    change(options, |cursor| {
        cursor.lower = key.optional_key(keylen)?.map(<[u8]>::to_vec);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_readoptions_set_upper_bound(
    options: Handle<ReadSettings>,
    key: Bytes,
    keylen: usize,
) {
    change(options, |cursor| {
        cursor.upper = key.optional_key(keylen)?.map(<[u8]>::to_vec);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn cleavedb_readoptions_set_prefix(
    options: Handle<ReadSettings>,
    prefix: Bytes,
    prefixlen: usize,
) {
    change(options, |cursor| {
        cursor.prefix = prefix.optional_key(prefixlen)?.map(<[u8]>::to_vec);
        Ok(())
    });
}
