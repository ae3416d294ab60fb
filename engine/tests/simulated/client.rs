//! A client of the database in the simulation, which records all its operations in the model.

use crate::model::{Contents, Model, Write, difference};
use cleavedb::env::Env;
use cleavedb::env::sim::Simulation;
use cleavedb::{
    Db, Durability, Error, ErrorKind, GcOptions, IngestOptions, KeyspaceOptions, Options,
    Separation, WriteBatch, WriteOptions,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub const DIR: &str = "db";

/// Runs a test in a simulation of its own. A run that takes more than `steps` steps hangs, and
/// fails.
pub fn simulate(seed: u64, steps: u64, test: impl FnOnce(&Env, &Simulation)) {
    let (env, simulation) = Env::simulated(seed);
    simulation.limit_steps(steps);
    simulation.run(|| test(&env, &simulation));
}

/// Opens the database, which has to work.
#[track_caller]
pub fn open(env: &Env, options: Options) -> Db {
    Db::builder(DIR).options(options).env(env.clone()).open().unwrap()
}

/// Returns the names of the database's files with the extension `suffix`.
pub fn files(env: &Env, suffix: &str) -> BTreeSet<PathBuf> {
    let names = env.fs.list(Path::new(DIR)).expect("the directory can be listed");
    names.into_iter().filter(|name| name.extension().is_some_and(|it| it == suffix)).collect()
}

/// Returns the bytes of these files.
pub fn file_bytes(env: &Env, suffix: &str) -> u64 {
    let len = |name| env.fs.open(&Path::new(DIR).join(name)).unwrap().len().unwrap();
    files(env, suffix).iter().map(len).sum()
}

/// The reason to end a script: the power failed, or a call that the script depends on failed.
#[derive(Debug)]
pub struct Stop;

/// The result of a client's operation.
pub type Step<T = ()> = Result<T, Stop>;

/// Returns options with minimal sizes, so that few writes cause all kinds of background work.
pub fn tiny_options() -> Options {
    let keyspace = KeyspaceOptions {
        separation: Separation::AtWrite,
        separation_threshold: 200,
        block_bytes: 256,
        table_bytes: 4 << 10,
        memtable_bytes: 4 << 10,
        level0_trigger: 2,
        level_base_bytes: 8 << 10,
        ..KeyspaceOptions::default()
    };
    Options {
        cache_bytes: 16 << 10,
        max_index_and_filter_bytes: Some(8 << 10),
        max_replay_bytes: 64 << 10,
        segment_bytes: 6 << 10,
        write_buffer_bytes: 1 << 10,
        max_open_files: 8,
        compaction_threads: 2,
        max_immutable_memtables: 1,
        level0_slowdown: 6,
        level0_stop: 12,
        update_table_bytes: 24 << 10,
        keyspace,
        gc: GcOptions {
            max_space_amplification: 1.3,
            space_allowance_bytes: 0,
            ..GcOptions::default()
        },
        ..Options::default()
    }
}

/// Returns options with small segments and rare compactions. Tables stay in L0, so that no
/// compaction makes their pointers direct.
pub fn unmerged_options() -> Options {
    let tables = tiny_options().keyspace;
    let keyspace = KeyspaceOptions { memtable_bytes: 1 << 20, level0_trigger: 9, ..tables };
    Options { segment_bytes: 64 << 10, max_replay_bytes: 1 << 20, keyspace, ..tiny_options() }
}

/// Returns the keyspace options of [`tiny_options`] with every value inline. Tables have no
/// filters, so that reads take the short cut of the update table.
pub fn inline_options() -> KeyspaceOptions {
    let tables = tiny_options().keyspace;
    KeyspaceOptions { separation: Separation::Off, filter_bits_per_key: 0, ..tables }
}

/// Returns the keyspace options of [`tiny_options`] with large values separated at flush.
pub fn at_flush_options() -> KeyspaceOptions {
    KeyspaceOptions { separation: Separation::AtFlush, ..tiny_options().keyspace }
}

/// Returns the keyspace options of [`tiny_options`] with a choice, after each flush, when large
/// values are separated.
pub fn auto_options() -> KeyspaceOptions {
    KeyspaceOptions { separation: Separation::Auto, ..tiny_options().keyspace }
}

/// A client with its database, its model, and the options that it opens with.
pub struct Client {
    simulation: Simulation,
    env: Env,
    db: Option<Db>,
    pub model: Model,
    /// If set, errors are recorded instead of failing the test.
    tolerant: bool,
    pub errors: Vec<Error>,
    /// If set, a read that fails fails the test.
    pub reads_must_work: bool,
    pub checkpoint: Option<Checkpoint>,
    pub options: Options,
    /// If set, every commit is synced, whatever durability the script asks for.
    pub synced: bool,
    pub relocated: Relocated,
}

/// The number of segments that value GC relocated in the databases that were closed or dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Relocated {
    pub in_all: u64,
    pub by_hand: u64,
}

/// A checkpoint whose creation was begun.
#[derive(Clone)]
pub struct Checkpoint {
    pub target: String,
    /// The contents that it must have.
    pub contents: BTreeMap<String, Contents>,
    pub acknowledged: bool,
}

/// One operation of a batch: keyspace, key, value.
pub type Operation = (&'static str, Vec<u8>, Option<Vec<u8>>);

impl Client {
    pub fn new(simulation: &Simulation, env: Env, model: Model) -> Client {
        let simulation = simulation.clone();
        Client {
            simulation,
            env,
            db: None,
            model,
            tolerant: false,
            errors: Vec::new(),
            reads_must_work: false,
            checkpoint: None,
            options: tiny_options(),
            synced: false,
            relocated: Relocated::default(),
        }
    }

    /// Makes the client record errors instead of failing the test.
    pub fn tolerant(mut self) -> Client {
        self.tolerant = true;
        self
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// Returns the value of a call that succeeded, or `None` for an error that is tolerated.
    fn outcome<T>(&mut self, what: &str, result: Result<T, Error>) -> Step<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.simulation.crashed() => Err(Stop),
            Err(error) if self.tolerant => {
                self.errors.push(error);
                Ok(None)
            }
            Err(error) => panic!("{what}: {error}"),
        }
    }

    pub fn open(&mut self) -> Step {
        if self.model.life("default").is_none() {
            self.model.begin_create("default");
        }
        let options = self.options.clone();
        let opened = Db::builder(DIR).options(options).env(self.env.clone()).open();
        self.db = Some(self.outcome("open", opened)?.ok_or(Stop)?);
        if self.errors.is_empty() {
            self.model.settle_name("default");
            return Ok(());
        }
        // After errors, opening decides the outcome of the operations that failed.
        let found = read_all(self.db());
        let found = self.outcome("read", found)?.ok_or(Stop)?;
        self.model.recover(&found, false).unwrap_or_else(|text| panic!("{text}"));
        Ok(())
    }

    pub fn close(&mut self) -> Step {
        self.count_relocated();
        let db = self.db.take().expect("the database is open");
        let closed = db.close();
        if self.outcome("close", closed)?.is_some() {
            self.model.everything_is_durable();
        }
        Ok(())
    }

    pub fn keyspace(&mut self, name: &str, mut options: KeyspaceOptions) -> Step {
        // All keyspaces append, or none.
        options.merge_operator = self.db().default_keyspace().options().merge_operator;
        if self.model.life(name).is_none() {
            self.model.begin_create(name);
        }
        let created = self.db().open_or_create_keyspace_with(name, options.clone());
        let created = created.and_then(|keyspace| keyspace.set_options(options));
        if self.outcome("create a keyspace", created)?.is_some() {
            self.model.settle_name(name);
        }
        Ok(())
    }

    pub fn drop_keyspace(&mut self, name: &str) -> Step {
        if self.model.life(name).is_none() {
            return Ok(());
        }
        self.model.begin_drop(name);
        let dropped = self.db().drop_keyspace(name);
        if self.outcome("drop a keyspace", dropped)?.is_some() {
            self.model.settle_name(name);
        }
        Ok(())
    }

    pub fn put(&mut self, key: &str, value: Vec<u8>, durability: Durability) -> Step {
        self.write(vec![("default", key.as_bytes().to_vec(), Some(value))], durability)
    }

    pub fn delete(&mut self, key: &str, durability: Durability) -> Step {
        self.write(vec![("default", key.as_bytes().to_vec(), None)], durability)
    }

    /// Returns true if a value is appended where a put is asked for: about two of three are, in a
    /// database whose keyspaces have an operator for that.
    fn appends(&self, value: Option<&Vec<u8>>) -> bool {
        let merges = self.db().default_keyspace().options().merge_operator.is_some();
        let sum = |value: &Vec<u8>| value.iter().take(7).map(|&byte| u32::from(byte)).sum::<u32>();
        merges && value.is_some_and(|value| !sum(value).is_multiple_of(3))
    }

    /// Writes the operations as a batch, or a single one by its own call.
    pub fn write(&mut self, operations: Vec<Operation>, durability: Durability) -> Step {
        let mut writes = Vec::new();
        for (name, key, value) in &operations {
            let Some(life) = self.model.life(name) else {
                return Ok(());
            };
            let (key, value, appends) = (key.clone(), value.clone(), self.appends(value.as_ref()));
            writes.push(Write { life, key, value, appends, until: None });
        }
        self.commit(writes, durability, |client, options| client.write_now(&operations, options))
    }

    /// Deletes the keys from `low` on that are before `high`.
    pub fn delete_range(
        &mut self,
        name: &str,
        (low, high): (&str, &str),
        durability: Durability,
    ) -> Step {
        let Some(life) = self.model.life(name) else {
            return Ok(());
        };
        let (key, until) = (low.as_bytes().to_vec(), Some(high.as_bytes().to_vec()));
        let write = Write { life, key, value: None, appends: false, until };
        self.commit(vec![write], durability, |client, options| {
            client.db().keyspace(name)?.delete_range_with(low..high, options)
        })
    }

    /// Ingests operations on one keyspace, in the order of their keys.
    pub fn ingest(&mut self, operations: Vec<Operation>) -> Step {
        let Some(life) = operations.first().and_then(|(name, ..)| self.model.life(name)) else {
            return Ok(());
        };
        let write = |(_, key, value): &Operation| Write {
            life,
            key: key.clone(),
            value: value.clone(),
            appends: false,
            until: None,
        };
        let writes = operations.iter().map(write).collect();
        self.commit(writes, Durability::Sync, |client, _| {
            let keyspace = client.db().keyspace(operations[0].0)?;
            let mut ingestion = keyspace.begin_ingest(&IngestOptions::default())?;
            for (_, key, value) in &operations {
                match value {
                    Some(value) => ingestion.put(key, value)?,
                    None => ingestion.delete(key)?,
                }
            }
            ingestion.finish().map(|_| ())
        })
    }

    /// Makes a commit of these writes, and records its outcome.
    fn commit(
        &mut self,
        writes: Vec<Write>,
        durability: Durability,
        write: impl FnOnce(&Client, &WriteOptions) -> Result<(), Error>,
    ) -> Step {
        let durability = if self.synced { Durability::Sync } else { durability };
        self.model.begin_commit(writes);
        let written = write(self, &WriteOptions::new().durability(durability));
        match self.outcome("write", written) {
            Ok(Some(())) => self.model.acknowledge(durability),
            Ok(None) => self.model.fail_commit(),
            Err(stop) => return Err(stop),
        }
        Ok(())
    }

    fn write_now(&self, operations: &[Operation], options: &WriteOptions) -> Result<(), Error> {
        let db = self.db();
        if let [(name, key, value)] = operations {
            let keyspace = db.keyspace(name)?;
            return match value {
                Some(value) if self.appends(Some(value)) => {
                    keyspace.merge_with(key, value, options)
                }
                Some(value) => keyspace.put_with(key, value, options),
                None => keyspace.delete_with(key, options),
            };
        }
        let mut batch = WriteBatch::new();
        for (name, key, value) in operations {
            let keyspace = db.keyspace(name)?;
            match value {
                Some(value) if self.appends(Some(value)) => batch.merge(&keyspace, key, value),
                Some(value) => batch.put(&keyspace, key, value),
                None => batch.delete(&keyspace, key),
            };
        }
        db.write_with(batch, options)
    }

    /// Makes a call after which everything committed before is durable.
    pub fn settle(&mut self, what: &str, call: impl FnOnce(&Db) -> Result<(), Error>) -> Step {
        let result = call(self.db());
        if self.outcome(what, result)?.is_some() {
            self.model.everything_is_durable();
        }
        Ok(())
    }

    /// Makes a call that guarantees nothing about durability.
    pub fn call(&mut self, what: &str, call: impl FnOnce(&Db) -> Result<(), Error>) -> Step {
        let result = call(self.db());
        self.outcome(what, result).map(|_| ())
    }

    pub fn checkpoint(&mut self, target: &str) -> Step {
        let mut contents = self.model.now();
        contents.retain(|name, _| self.model.life(name).is_some());
        let begun = Checkpoint { target: target.to_owned(), contents, acknowledged: false };
        self.checkpoint = Some(begun.clone());
        let made = self.db().checkpoint(target);
        if self.outcome("checkpoint", made)?.is_some() {
            self.checkpoint = Some(Checkpoint { acknowledged: true, ..begun });
            self.model.everything_is_durable();
        }
        Ok(())
    }

    /// Reads everything in the open database and compares it with the model.
    pub fn check_live(&mut self) -> Step {
        let found = read_all(self.db());
        if let (true, Err(error)) = (self.reads_must_work, &found) {
            panic!("readers do not go on: {error}");
        }
        let Some(found) = self.outcome("read", found)? else {
            return Ok(());
        };
        self.compare(&found);
        Ok(())
    }

    pub fn compare(&self, found: &BTreeMap<String, Contents>) {
        for (name, wanted) in self.model.now() {
            if let Some(found) = found.get(&name) {
                let text = difference(&wanted, found);
                assert!(text.is_empty(), "a reader sees wrong values in {name}:{text}");
            }
        }
    }

    /// Continues with a database that the caller opened.
    pub fn adopt(&mut self, db: Db) {
        self.db = Some(db);
    }

    /// Opens the database after a crash, checks its contents, and continues the model from them.
    pub fn recover(&mut self, power_failed: bool) -> Step {
        let options = self.options.clone();
        let opened = Db::builder(DIR).options(options).env(self.env.clone()).open();
        let db = self.outcome("open", opened)?.ok_or(Stop)?;
        let found = read_all(&db);
        self.db = Some(db);
        let found = self.outcome("read", found)?.ok_or(Stop)?;
        self.model.recover(&found, power_failed).unwrap_or_else(|text| panic!("{text}"));
        Ok(())
    }

    /// Drops the database without a close, as the end of the process does.
    pub fn leave(&mut self) {
        self.count_relocated();
        self.db = None;
    }

    fn count_relocated(&mut self) {
        if let Some(db) = &self.db {
            self.relocated.in_all += db.stats().gc.segments_relocated;
        }
    }

    /// Runs value GC by hand, after which everything committed before is durable.
    pub fn collect(&mut self) -> Step {
        let done = self.db().gc();
        if let Some(report) = self.outcome("gc", done)? {
            self.model.everything_is_durable();
            self.relocated.by_hand += report.segments_freed;
        }
        Ok(())
    }

    /// Returns how many files of the database have the extension `suffix`.
    pub fn files(&self, suffix: &str) -> usize {
        files(&self.env, suffix).len()
    }

    /// Sleeps, so that automatic background work can run.
    pub fn rest(&mut self, time: std::time::Duration) -> Step {
        self.env.threads.sleep(time);
        if self.simulation.crashed() { Err(Stop) } else { Ok(()) }
    }
}

/// Reads everything forwards with values, backwards, and key by key.
pub fn read_all(db: &Db) -> Result<BTreeMap<String, Contents>, Error> {
    let mut all = BTreeMap::new();
    for name in db.keyspaces() {
        let keyspace = match db.keyspace(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            found => found?,
        };
        let mut contents = Contents::new();
        for item in keyspace.iter() {
            let (key, value) = item?;
            contents.insert(key.to_vec(), value.to_vec());
        }
        let backwards: Vec<_> = keyspace.keys().rev().collect::<Result<_, _>>()?;
        let forwards: Vec<&[u8]> = contents.keys().rev().map(Vec::as_slice).collect();
        assert!(
            backwards.iter().map(|key| &key[..]).eq(forwards.iter().copied()),
            "{name} has other keys read backwards"
        );
        for (key, value) in &contents {
            let got = keyspace.get(key)?;
            let got = got.as_ref().map(|value| &value[..]);
            assert_eq!(got, Some(&value[..]), "get and scan of {name} differ");
        }
        all.insert(name, contents);
    }
    Ok(all)
}
