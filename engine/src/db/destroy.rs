//! Destroys a database: removes its files, and nothing else.

use crate::base::error::{IoContext, Result};
use crate::db::Db;
use crate::db::options::Options;
use crate::env::Env;
use crate::env::fs::{Fs, Hold, NameKind};
use crate::recovery::follow::pinned;
use crate::recovery::place;
use crate::repair::LOST;
use crate::version::files::names::{self, FileName};
use std::ffi::OsStr;
use std::path::Path;

impl Db {
    /// Destroys the database at `path`: removes every file that has a name of CleaveDB's, and the
    /// directory if that leaves it empty and it can be removed. Files of other names stay, and so
    /// does what is called CONTROL and is no socket. A
    /// directory without any numbered file of ours is left alone. Fails with [`ErrorKind::Locked`]
    /// if somebody holds the database open, and with [`ErrorKind::InvalidArgument`] on the
    /// directory of another store. Destroying a database that does not exist succeeds.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("destroy");
    /// cleavedb::open(&dir)?.close()?;
    /// cleavedb::Db::destroy(&dir)?;
    /// assert!(!dir.join("CURRENT").exists());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::Locked`]: crate::ErrorKind::Locked
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        destroy(&Env::os(&Options::default().os_settings()), path.as_ref())
    }
}

fn destroy(env: &Env, dir: &Path) -> Result<()> {
    let fs = &*env.fs;
    if !fs.exists(dir).doing("look for", dir)? {
        return Ok(());
    }
    let current = dir.join(names::CURRENT);
    let exists = fs.exists(&current).doing("look for", &current)?;
    place::check_not_of_another_store(env, dir, exists)?;
    let ours = |path: &Path| names::parse(path) != FileName::Foreign;
    // Other stores use the names CURRENT and LOCK too, so these prove nothing by themselves.
    let is_telling = |named| !matches!(named, FileName::Foreign | FileName::Fixed | FileName::Note);
    let telling = |path: &Path| is_telling(names::parse(path));
    let files = fs.list(dir).doing("list", dir)?;
    if !files.iter().any(|path| telling(path)) {
        return Ok(());
    }
    let lock = place::lock(env, dir, Hold::Alone, &env.threads.describe_process())?;
    // CURRENT goes first: what a crash leaves from here on is no database, and can be destroyed
    // again.
    if fs.exists(&current).doing("look for", &current)? {
        fs.remove(&current).doing("remove", &current)?;
        fs.sync_dir(dir).doing("sync the directory", dir)?;
    }
    remove_ours(fs, dir, |path| ours(path) && !path.ends_with(names::LOCK))?;
    empty_lost(fs, &dir.join(LOST))?;
    pinned::remove_stale(env, dir)?;
    // The lock file goes last and while it is held, so nobody creates a new database meanwhile.
    let lock_path = dir.join(names::LOCK);
    fs.remove(&lock_path).doing("remove", &lock_path)?;
    drop(lock);
    remove_if_empty(fs, dir);
    Ok(())
}

fn remove_ours(fs: &dyn Fs, dir: &Path, ours: impl Fn(&Path) -> bool) -> Result<()> {
    for path in fs.list(dir).doing("list", dir)? {
        let path = dir.join(path.file_name().unwrap_or_default());
        // Ours is a socket. A database opens beside anything else of that name, and leaves it.
        let is_foreign = path.ends_with(names::CONTROL)
            && fs.kind(&path).doing("look at", &path)? != Some(NameKind::Socket);
        if ours(&path) && !is_foreign {
            fs.remove(&path).doing("remove", &path)?;
        }
    }
    Ok(())
}

/// Removes what repairs set aside in `lost`. If `lost` is a link, it and its target stay.
fn empty_lost(fs: &dyn Fs, lost: &Path) -> Result<()> {
    if fs.kind(lost).doing("look for", lost)? != Some(NameKind::Directory) {
        return Ok(());
    }
    // The directory is held open from here on: a link that takes its place now changes nothing.
    let open = fs.open_dir(lost).doing("open the directory", lost)?;
    for path in open.list().doing("list", lost)? {
        if is_set_aside(&path) {
            let name = path.file_name().unwrap_or_default();
            open.remove(name).doing("remove", &lost.join(name))?;
        }
    }
    remove_if_empty(fs, lost);
    Ok(())
}

/// Returns true for the names that repairs give to files in `lost`: our own names, with a number
/// appended from the second file of a name on.
fn is_set_aside(path: &Path) -> bool {
    let is_number =
        |text: &OsStr| !text.is_empty() && text.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let is_ours = |path: &Path| names::parse(path) != FileName::Foreign;
    is_ours(path) || path.extension().is_some_and(is_number) && is_ours(&path.with_extension(""))
}

/// Removes the directory if it is empty, and ignores a failure: the database is gone already. The
/// directory may hold other files, be reached by a link or as `.`, or lie where this user may not
/// remove it.
fn remove_if_empty(fs: &dyn Fs, dir: &Path) {
    let _ = fs.remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, doc_dir, open};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// Returns true if the database was destroyed between a reader's first look and its lock.
    fn is_destroyed_before_the_lock(seed: u64) -> bool {
        let (env, simulation) = Env::simulated(seed);
        simulation.run(|| {
            let dir = Path::new("db");
            let builder = || Db::builder(dir).env(env.clone()).beside_other_files();
            builder().open().unwrap().close().unwrap();
            // This file keeps the directory, and so a place where a lock file could be created.
            env.fs.create(&dir.join("notes.txt")).unwrap();
            let is_destroyed = Arc::new(AtomicBool::new(false));
            let (other, says) = (env.clone(), is_destroyed.clone());
            let work = move || match destroy(&other, Path::new("db")) {
                Ok(()) => says.store(true, Ordering::SeqCst),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
            };
            let destroyer = env.threads.spawn("destroyer", Box::new(work)).unwrap();
            let options = Options { read_only: true, ..Options::default() };
            let opened = builder().options(options).open();
            destroyer.join().unwrap();
            let is_destroyed = is_destroyed.load(Ordering::SeqCst);
            assert!(!is_destroyed || opened.is_err(), "a reader created it, with seed {seed}");
            is_destroyed && env.fs.exists(&dir.join(names::LOCK)).unwrap()
        })
    }

    #[test]
    fn a_reader_creates_nothing_where_all_was_destroyed_behind_its_first_look() {
        let late = (0..2000).filter(|&seed| is_destroyed_before_the_lock(seed)).count();
        assert!(late > 0, "no seed had it destroyed in between");
    }

    /// Who follows a database holds its lock for a moment at each look. `destroy` failed then, as a
    /// repair did, though nobody had the database open; both look again now.
    #[test]
    fn a_moment_of_a_reader_is_waited_for() {
        for (moment, is_waited_for) in [(20, true), (10_000, false)] {
            let (env, simulation) = Env::simulated(3);
            simulation.run(|| {
                let dir = Path::new("db");
                Db::builder(dir).env(env.clone()).open().unwrap().close().unwrap();
                let lock = place::lock(&env, dir, Hold::Shared, "a follower").unwrap();
                let other = env.clone();
                let work = move || {
                    other.threads.sleep(Duration::from_millis(moment));
                    drop(lock);
                };
                let reader = env.threads.spawn("reader", Box::new(work)).unwrap();
                match destroy(&env, dir) {
                    Ok(()) => {
                        assert!(is_waited_for && !env.fs.exists(&dir.join("CURRENT")).unwrap());
                    }
                    Err(error) => {
                        assert!(!is_waited_for && error.kind() == ErrorKind::Locked, "{error}");
                    }
                }
                reader.join().unwrap();
            });
        }
    }

    #[test]
    fn only_files_of_its_own_naming_go() {
        let dir = doc_dir("destroy-ours");
        let db = open(&dir).unwrap();
        db.default_keyspace().put("a", "b").unwrap();
        db.flush().unwrap();
        assert_eq!(Db::destroy(&dir).unwrap_err().kind(), ErrorKind::Locked);
        assert_eq!(db.default_keyspace().get("a").unwrap().unwrap(), "b");
        db.close().unwrap();
        std::fs::write(dir.join("notes.txt"), "mine").unwrap();
        Db::destroy(&dir).unwrap();
        let left: Vec<_> =
            std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
        Db::destroy(&dir).unwrap();
        std::fs::remove_file(dir.join("notes.txt")).unwrap();
        Db::destroy(dir.join("nowhere")).unwrap();
    }

    #[test]
    fn an_emptied_directory_goes_too() {
        let dir = doc_dir("destroy-all");
        open(&dir).unwrap().close().unwrap();
        Db::destroy(&dir).unwrap();
        assert!(!dir.exists());
        open(&dir).unwrap().close().unwrap();
    }

    /// Guards against destroying another store: `destroy` once removed CURRENT and LOCK of a
    /// LevelDB database, because our files have these names too, and with them the database.
    #[test]
    fn the_directory_of_another_store_stays() {
        let dir = doc_dir("destroy-others");
        let names = ["CURRENT", "LOCK", "MANIFEST-000004", "000005.ldb"];
        let write = |name: &str| std::fs::write(dir.join(name), "MANIFEST-000004\n").unwrap();
        std::fs::create_dir(&dir).unwrap();
        names.iter().for_each(|name| write(name));
        assert_eq!(Db::destroy(&dir).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(names.iter().all(|name| dir.join(name).exists()));
        for name in &names[2..] {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
        Db::destroy(&dir).unwrap();
        assert!(names[..2].iter().all(|name| dir.join(name).exists()));
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_cannot_go_stays_empty() {
        let dir = doc_dir("destroy-link");
        let link = dir.join("link");
        std::fs::create_dir_all(dir.join("real")).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        open(&link).unwrap().close().unwrap();
        Db::destroy(&link).unwrap();
        assert_eq!(std::fs::read_dir(&link).unwrap().count(), 0);
    }
}
