//! The disk as processes see it: it must behave as the real file system.

use super::{durable, exists};
use crate::env::Env;
use crate::env::batch_read::ReadRequest;
use crate::env::fs::Hold;
use crate::env::sim::Survivors;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[test]
fn names_come_and_go() {
    let (env, simulation) = Env::simulated(1);
    let fs = env.fs;
    let path = Path::new;
    fs.create_dir_all(path("/db/inner")).unwrap();
    fs.create_dir_all(path("/db/./inner")).unwrap();
    fs.create(path("/db/b")).unwrap();
    fs.create(path("/db/a")).unwrap().write_at(b"a", 0).unwrap();
    fs.create(path("/db/inner/c")).unwrap();
    assert_eq!(fs.list(path("/db")).unwrap(), [PathBuf::from("a"), PathBuf::from("b")]);
    let kind = |error: Option<std::io::Error>| error.unwrap().kind();
    assert_eq!(kind(fs.create(path("/db/a")).err()), ErrorKind::AlreadyExists);
    assert_eq!(kind(fs.create(path("/no/a")).err()), ErrorKind::NotFound);
    assert_eq!(kind(fs.open(path("/db/c")).err()), ErrorKind::NotFound);
    assert_eq!(kind(fs.open(path("/db/inner")).err()), ErrorKind::IsADirectory);
    assert_eq!(kind(fs.list(path("/no")).err()), ErrorKind::NotFound);
    assert_eq!(kind(fs.remove(path("/db/c")).err()), ErrorKind::NotFound);
    assert_eq!(kind(fs.sync_dir(path("/no")).err()), ErrorKind::NotFound);
    fs.rename(path("/db/a"), path("/db/b")).unwrap();
    assert_eq!(fs.open(path("/db/b")).unwrap().len().unwrap(), 1);
    fs.hard_link(path("/db/b"), path("/db/c")).unwrap();
    assert_eq!(kind(fs.hard_link(path("/db/b"), path("/db/c")).err()), ErrorKind::AlreadyExists);
    let file = fs.open(path("/db/c")).unwrap();
    assert_eq!(file.links().unwrap(), 2);
    fs.remove(path("/db/b")).unwrap();
    assert_eq!(file.links().unwrap(), 1);
    assert_eq!(simulation.files(), [PathBuf::from("/db/c"), PathBuf::from("/db/inner/c")]);
    assert_eq!(simulation.read_file("/db/c"), b"a");
}

#[test]
fn a_file_opened_for_reading_is_not_written() {
    let (env, _) = Env::simulated(1);
    durable(&env, "a", b"a");
    let file = env.fs.open(Path::new("a")).unwrap();
    assert_eq!(file.write_at(b"b", 0).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(file.set_len(0).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(file.punch(0, 1).unwrap_err().kind(), ErrorKind::PermissionDenied);
    env.fs.open_write(Path::new("a")).unwrap().write_at(b"b", 0).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"b");
}

#[test]
fn a_removed_file_lives_while_it_is_open() {
    let (env, simulation) = Env::simulated(1);
    simulation.set_capacity(Some(1 << 20));
    let file = durable(&env, "a", &[7; 8192]);
    env.fs.remove(Path::new("a")).unwrap();
    env.fs.sync_dir(Path::new("")).unwrap();
    assert_eq!((simulation.open_but_removed(), simulation.used()), (1, 8192));
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [7; 3]);
    drop(file);
    assert_eq!((simulation.open_but_removed(), simulation.used()), (0, 0));
}

#[test]
fn a_second_lock_is_refused_until_the_process_ends() {
    let (env, simulation) = Env::simulated(1);
    let path = Path::new("LOCK");
    let lock = env.fs.lock(path, Hold::Alone, "first").unwrap();
    let error = env.fs.lock(path, Hold::Alone, "second").err().unwrap();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::WouldBlock, "first"));
    drop(lock);
    let left = env.fs.lock(path, Hold::Alone, "third").unwrap();
    assert_eq!(simulation.read_file("LOCK"), b"CleaveDB lock, held by third");
    let env = simulation.restart(Survivors::KeepAll);
    let held = env.fs.lock(path, Hold::Alone, "fourth").unwrap();
    drop(left); // of a process that has ended
    assert!(env.fs.lock(path, Hold::Alone, "fifth").is_err());
    drop(held);
}

#[test]
fn a_lock_may_be_shared_and_is_free_when_the_last_let_go() {
    let (env, _) = Env::simulated(1);
    let path = Path::new("LOCK");
    let readers = ["first", "second"].map(|who| env.fs.lock(path, Hold::Shared, who).unwrap());
    for left in readers {
        let error = env.fs.lock(path, Hold::Alone, "writer").err().unwrap();
        let who = "readers, the last of them second";
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::WouldBlock, who));
        drop(left);
    }
    let _alone = env.fs.lock(path, Hold::Alone, "writer").unwrap();
    let error = env.fs.lock(path, Hold::Shared, "late").err().unwrap();
    assert_eq!(error.to_string(), "writer");
}

#[test]
fn reads_in_a_batch_are_made_one_by_one() {
    let (env, _) = Env::simulated(1);
    let file = durable(&env, "a", b"0123456789");
    let request = |offset| ReadRequest { file: Arc::clone(&file), offset, len: 2 };
    let mut pending = env.reader.submit(vec![request(0), request(9), request(4)]);
    assert_eq!(env.reader.name(), "one by one");
    assert_eq!(*pending.take(2).unwrap(), *b"45");
    assert_eq!(pending.take(1).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(*pending.take(0).unwrap(), *b"01");
}

#[test]
fn corruption_survives_everything() {
    let (env, simulation) = Env::simulated(1);
    let file = durable(&env, "a", b"good");
    file.write_at(b"more", 4).unwrap();
    simulation.corrupt("a", |bytes| bytes[0] ^= 0xff);
    let env = simulation.restart(Survivors::LoseAll);
    assert!(exists(&env, "a"));
    assert_eq!(simulation.read_file("a")[1..], *b"oodmore");
    assert_ne!(simulation.read_file("a")[0], b'g');
}

#[test]
fn threads_of_the_system_can_share_the_disk() {
    let (env, simulation) = Env::simulated(1);
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let env = env.clone();
            scope.spawn(move || {
                let file = durable(&env, name, b"");
                (0..100).for_each(|at| file.write_at(name.as_bytes(), at).unwrap());
            });
        }
    });
    assert_eq!(simulation.files().len(), 3);
    assert_eq!(simulation.read_file("b"), [b'b'; 100]);
    let before = env.clock.now();
    env.threads.sleep(std::time::Duration::from_secs(3600));
    assert!(env.clock.now() - before >= std::time::Duration::from_secs(3600));
}
