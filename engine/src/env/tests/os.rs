//! Tests of the real file system.

use super::ScratchDir;
use crate::env::fs::{AccessPattern, File, Fs, Hold};
use crate::env::{Env, OsSettings};
use std::io;
use std::os::unix::fs::PermissionsExt;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

fn os() -> Arc<dyn Fs> {
    Env::os(&OsSettings::default()).fs
}

/// What a file system in memory holds is never written, so nothing says what was spared.
#[cfg(target_os = "linux")]
#[test]
fn removed_bytes_that_were_not_written_are_counted() {
    let fs = os();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let before = fs.removed_unwritten(dir);
    assert!(before <= fs.removed_unwritten(dir), "it never decreases");
    assert_eq!(fs.removed_unwritten(Path::new("/dev/shm")), None);
    assert_eq!(fs.removed_unwritten(Path::new("/no/such/directory")), None);
}

#[test]
fn what_is_written_is_read_back() {
    let (directory, fs) = (ScratchDir::new(), os());
    let path = directory.path().join("a");
    let file = fs.create(&path).unwrap();
    file.write_at(b"hello world", 0).unwrap();
    file.write_at(b"W", 6).unwrap();
    file.start_writeback(0, 11);
    file.sync().unwrap();
    fs.sync_dir(directory.path()).unwrap();
    let file = fs.open(&path).unwrap();
    file.advise(AccessPattern::Random);
    file.advise(AccessPattern::Sequential);
    assert_eq!(file.len().unwrap(), 11);
    assert_eq!(file.links().unwrap(), 1);
    assert!(file.descriptor().is_some());
    let mut bytes = [0; 5];
    file.read_exact_at(&mut bytes, 6).unwrap();
    assert_eq!(&bytes, b"World");
    let mut more = [0; 20];
    assert_eq!(file.read_at(&mut more, 6).unwrap(), 5);
    assert_eq!(file.read_at(&mut more, 100).unwrap(), 0);
    let error = file.read_exact_at(&mut more, 6).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(file.write_at(b"x", 0).is_err(), "opened for reading");
}

#[test]
fn files_are_for_their_owner_only() {
    let (directory, fs) = (ScratchDir::new(), os());
    let inner = directory.path().join("b/c");
    fs.create_dir_all(&inner).unwrap();
    fs.create_dir_all(&inner).unwrap();
    fs.create(&inner.join("file")).unwrap();
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    assert_eq!(mode(&inner.join("file")), 0o600);
}

#[test]
fn names_come_and_go() {
    let (directory, fs) = (ScratchDir::new(), os());
    let path = |name: &str| directory.path().join(name);
    fs.create(&path("b")).unwrap();
    fs.create(&path("a")).unwrap().write_at(b"a", 0).unwrap();
    fs.create_dir_all(&path("directory")).unwrap();
    assert_eq!(fs.create(&path("a")).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs.open(&path("c")).err().unwrap().kind(), io::ErrorKind::NotFound);
    assert_eq!(fs.list(directory.path()).unwrap(), [PathBuf::from("a"), PathBuf::from("b")]);
    fs.rename(&path("a"), &path("b")).unwrap();
    assert_eq!(fs.open(&path("b")).unwrap().len().unwrap(), 1);
    fs.hard_link(&path("b"), &path("c")).unwrap();
    assert_eq!(fs.open(&path("b")).unwrap().links().unwrap(), 2);
    assert!(fs.hard_link(&path("b"), &path("c")).is_err());
    fs.remove(&path("b")).unwrap();
    assert!(!fs.exists(&path("b")).unwrap());
    assert!(fs.exists(&path("c")).unwrap());
    assert!(fs.free_space(directory.path()).unwrap() > 0);
}

#[test]
fn a_hole_frees_space_and_reads_as_zeroes() {
    let (directory, fs) = (ScratchDir::new(), os());
    let file = fs.create(&directory.path().join("a")).unwrap();
    file.write_at(&vec![7; 1 << 20], 0).unwrap();
    file.sync().unwrap();
    let before = file.allocated().unwrap();
    assert!(before >= 1 << 20);
    match file.punch(4096, 512 << 10) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return,
        result => result.unwrap(),
    }
    file.punch(4096, 0).unwrap();
    assert_eq!(file.allocated().unwrap(), before - (512 << 10));
    assert_eq!(file.len().unwrap(), 1 << 20);
    let mut bytes = vec![1; (512 << 10) + 2];
    file.read_exact_at(&mut bytes, 4095).unwrap();
    assert_eq!((bytes[0], bytes[bytes.len() - 1]), (7, 7));
    assert!(bytes[1..bytes.len() - 1].iter().all(|&byte| byte == 0));
    file.set_len(0).unwrap();
    assert_eq!(file.allocated().unwrap(), 0);
    assert!(file.is_empty().unwrap());
}

/// Guards against a mapping behind the end of its file. Cutting a file while another thread
/// prepared it for appends left such a mapping, and the next append ended the process by a signal.
/// The two operations now exclude each other.
#[test]
fn a_file_can_be_cut_while_it_is_prepared_for_appends() {
    let (directory, fs) = (ScratchDir::new(), os());
    let file = fs.create(&directory.path().join("a")).unwrap();
    std::thread::scope(|scope| {
        let repeat = |work: fn(&dyn File)| {
            let file = &*file;
            scope.spawn(move || (0..2000).for_each(|_| work(file)));
        };
        repeat(|file| file.prepare_appends(0, 64 << 10));
        repeat(|file| file.set_len(0).unwrap());
        repeat(|file| file.write_at(b"appended", 40 << 10).unwrap());
        repeat(|file| file.start_writeback(0, 48 << 10));
    });
    file.set_len(0).unwrap();
    file.prepare_appends(0, 100);
    file.write_at(b"appended", 0).unwrap();
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"appended");
}

#[test]
fn writes_before_and_across_and_behind_what_is_written_back_arrive() {
    let (directory, fs) = (ScratchDir::new(), os());
    let file = fs.create(&directory.path().join("a")).unwrap();
    // Whole pages, whatever their size is.
    let part = 64 << 10;
    file.prepare_appends(0, 4 * part);
    file.write_at(&vec![1; 3 * part as usize], 0).unwrap();
    file.start_writeback(0, 2 * part);
    file.write_at(b"before", 10).unwrap();
    file.write_at(b"across", 2 * part - 3).unwrap();
    file.write_at(b"behind", 3 * part).unwrap();
    let read = |offset| {
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    assert_eq!([10, 2 * part - 3, 3 * part].map(read), [*b"before", *b"across", *b"behind"]);
    assert_eq!(read(part), [1; 6]);
}

#[test]
fn a_second_lock_is_refused_and_told_who_holds_it() {
    let (directory, fs) = (ScratchDir::new(), os());
    let path = directory.path().join("LOCK");
    let lock = fs.lock(&path, Hold::Alone, "1234 cleave open db").unwrap();
    let link = directory.path().join("elsewhere");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let error = fs.lock(&path, Hold::Alone, "5678").err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(error.to_string(), "1234 cleave open db");
    let error = fs.lock(&link, Hold::Alone, "5678").err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "a link is not followed");
    drop(lock);
    let lock = fs.lock(&path, Hold::Alone, "9").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"CleaveDB lock, held by 9");
    drop(lock);
}

#[test]
fn a_lock_may_be_shared_and_is_free_when_the_last_let_go() {
    let (directory, fs) = (ScratchDir::new(), os());
    let path = directory.path().join("LOCK");
    let first = fs.lock(&path, Hold::Shared, "first").unwrap();
    let second = fs.lock(&path, Hold::Shared, "second").unwrap();
    let who = "readers, the last of them second";
    let text = format!("CleaveDB lock, held by {who}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let elsewhere = std::fs::File::open(&path).unwrap();
    for left in [first, second] {
        // The lock is tried from here and from another process, for which a separate descriptor
        // stands.
        let error = fs.lock(&path, Hold::Alone, "writer").err().unwrap();
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::WouldBlock, who));
        assert!(elsewhere.try_lock().is_err());
        elsewhere.try_lock_shared().unwrap();
        elsewhere.unlock().unwrap();
        drop(left);
    }
    let _alone = fs.lock(&path, Hold::Alone, "writer").unwrap();
    let error = fs.lock(&path, Hold::Shared, "late").err().unwrap();
    assert_eq!(error.to_string(), "writer");
    assert!(elsewhere.try_lock_shared().is_err());
}

#[test]
fn a_lock_held_through_another_descriptor_is_respected() {
    let (directory, fs) = (ScratchDir::new(), os());
    let path = directory.path().join("LOCK");
    std::fs::write(&path, "CleaveDB lock, held by another\u{1b}process").unwrap();
    let other = std::fs::File::open(&path).unwrap();
    other.lock().unwrap();
    let error = fs.lock(&path, Hold::Alone, "me").err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert_eq!(error.to_string(), "another\\u{1b}process");
    other.unlock().unwrap();
    fs.lock(&path, Hold::Alone, "me").unwrap();
}

/// Somebody who can put a link or a pipe into a directory must not be able to redirect writes to
/// other files, nor to make an opening wait for ever.
#[test]
fn links_are_not_written_through_and_only_files_are_opened() {
    use crate::env::fs::NameKind;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let (directory, fs) = (ScratchDir::new(), os());
    let [file, link, pipe, sub] =
        ["file", "link", "pipe", "sub"].map(|name| directory.path().join(name));
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs.create_dir(&sub).unwrap();
    assert_eq!(fs.create_dir(&sub).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert!(fs.open_write(&link).is_err());
    assert!(fs.create(&link).is_err());
    assert_eq!(fs.open(&link).unwrap().len().unwrap(), 8, "for reading it is followed");
    for path in [&pipe, &sub] {
        assert!(fs.open(path).is_err() && fs.open_write(path).is_err(), "{path:?}");
    }
    let kinds = [&file, &link, &pipe, &sub].map(|path| fs.kind(path).unwrap().unwrap());
    assert_eq!(kinds, [NameKind::File, NameKind::Other, NameKind::Other, NameKind::Directory]);
    assert_eq!(fs.kind(&directory.path().join("nothing")).unwrap(), None);
}

#[test]
fn an_open_directory_is_the_one_that_was_opened() {
    let (directory, fs) = (ScratchDir::new(), os());
    let [sub, link, other, file] =
        ["sub", "link", "other", "file"].map(|name| directory.path().join(name));
    fs.create_dir(&sub).unwrap();
    std::os::unix::fs::symlink(&sub, &link).unwrap();
    assert!(fs.open_dir(&link).is_err(), "a link is refused");
    let open = fs.open_dir(&sub).unwrap();
    std::fs::write(&file, "one").unwrap();
    open.take(&file, "1".as_ref()).unwrap();
    std::fs::write(&file, "two").unwrap();
    let taken = open.take(&file, "1".as_ref()).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    std::fs::create_dir(sub.join("below")).unwrap();
    // Somebody puts another directory in its place.
    std::fs::rename(&sub, directory.path().join("moved")).unwrap();
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("1"), "precious").unwrap();
    std::os::unix::fs::symlink(&other, &sub).unwrap();
    assert_eq!(open.list().unwrap(), [std::path::PathBuf::from("1")]);
    open.remove("1".as_ref()).unwrap();
    assert!(open.list().unwrap().is_empty());
    assert_eq!(std::fs::read_to_string(other.join("1")).unwrap(), "precious");
}

#[test]
fn time_does_not_go_back() {
    let clock = Env::os(&OsSettings::default()).clock;
    let before = clock.now();
    assert!(clock.now() >= before);
    let year_2020 = std::time::Duration::from_secs(50 * 365 * 24 * 3600);
    assert!(clock.wall() > year_2020);
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_gives_way_does_so_alone() {
    use crate::env::threads::{OsThreads, Threads};
    use rustix::process::getpriority_process;
    let before = getpriority_process(None).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let work = move || {
        OsThreads.lower_priority();
        send.send(getpriority_process(None).unwrap()).unwrap();
    };
    OsThreads.spawn("background", Box::new(work)).unwrap().join().unwrap();
    assert_eq!(receive.recv().unwrap(), (before + 5).min(19));
    assert_eq!(getpriority_process(None).unwrap(), before);
}
