//! Parallel reads: every way of reading behaves the same.

use super::ScratchDir;
use crate::env::batch_read::{BatchReader, OneByOne, ParallelReads, ReadRequest};
use crate::env::fs::{AccessPattern, File};
use crate::env::pool::ThreadPool;
use crate::env::{Env, OsSettings};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns all ways of reading that this build and kernel have.
fn readers() -> Vec<Box<dyn BatchReader>> {
    let mut readers: Vec<Box<dyn BatchReader>> = vec![
        Box::new(OneByOne::default()),
        Box::new(ThreadPool::new(1)),
        Box::new(ThreadPool::new(8)),
    ];
    readers.extend(ring());
    readers
}

/// Returns the ring, if the kernel has one.
#[cfg(all(target_os = "linux", feature = "io-uring"))]
fn ring() -> Option<Box<dyn BatchReader>> {
    Some(Box::new(crate::env::uring::RingReader::new().ok()?))
}

#[cfg(not(all(target_os = "linux", feature = "io-uring")))]
fn ring() -> Option<Box<dyn BatchReader>> {
    None
}

/// Creates a file whose byte at offset `n` is `n` modulo 251.
fn patterned_file(directory: &ScratchDir, len: usize) -> Arc<dyn File> {
    let fs = Env::os(&OsSettings::default()).fs;
    let file = fs.create(&directory.path().join("data")).unwrap();
    file.write_at(&pattern(0, len), 0).unwrap();
    file
}

fn pattern(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(|at| (at % 251) as u8).collect()
}

fn request(file: &Arc<dyn File>, offset: usize, len: usize) -> ReadRequest {
    ReadRequest { file: Arc::clone(file), offset: offset as u64, len }
}

#[test]
fn each_request_gets_its_bytes_in_any_order() {
    let directory = ScratchDir::new();
    let file = patterned_file(&directory, 100_000);
    for reader in readers() {
        let place = |index: usize| (index * 97, index % 300);
        let requests = (0..1000).map(|index| {
            let (offset, len) = place(index);
            request(&file, offset, len)
        });
        let mut pending = reader.submit(requests.collect());
        for step in 0..1000 {
            let index = step * 7 % 1000;
            let (offset, len) = place(index);
            assert_eq!(*pending.take(index).unwrap(), *pattern(offset, len), "{}", reader.name());
        }
    }
}

#[test]
fn an_error_is_told_to_its_own_request() {
    let directory = ScratchDir::new();
    let file = patterned_file(&directory, 1000);
    for reader in readers() {
        let requests =
            vec![request(&file, 0, 10), request(&file, 995, 10), request(&file, 5000, 1)];
        let mut pending = reader.submit(requests);
        for late in [2, 1] {
            let error = pending.take(late).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{}", reader.name());
        }
        assert_eq!(*pending.take(0).unwrap(), pattern(0, 10));
    }
}

#[test]
fn a_length_beyond_memory_is_an_error() {
    let directory = ScratchDir::new();
    let file = patterned_file(&directory, 1000);
    for reader in readers() {
        let requests = vec![request(&file, 0, 10), request(&file, 0, usize::MAX)];
        let mut pending = reader.submit(requests);
        assert_eq!(pending.take(1).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(*pending.take(0).unwrap(), pattern(0, 10));
    }
}

#[test]
fn many_batches_at_once_from_many_threads() {
    let directory = ScratchDir::new();
    let file = patterned_file(&directory, 100_000);
    for reader in readers() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (reader, file) = (&reader, &file);
                scope.spawn(move || {
                    for batch in 0..50 {
                        let place = |index| (thread * 1000 + batch * 37 + index, index + 1);
                        let requests = (0..20).map(|index| {
                            let (offset, len) = place(index);
                            request(file, offset, len)
                        });
                        let mut pending = reader.submit(requests.collect());
                        // Some batches are dropped half way.
                        for index in 0..if batch % 3 == 0 { 10 } else { 20 } {
                            let (offset, len) = place(index);
                            assert_eq!(*pending.take(index).unwrap(), *pattern(offset, len));
                        }
                    }
                });
            }
        });
    }
}

/// A file whose reads report that they have begun, and then wait to be released.
struct Gated {
    reads: AtomicUsize,
    begun: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
    panics_when_closed: AtomicBool,
}

impl Drop for Gated {
    fn drop(&mut self) {
        assert!(!self.panics_when_closed.load(Ordering::SeqCst), "closing it panics");
    }
}

impl File for Gated {
    fn read_at(&self, buf: &mut [u8], _: u64) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.begun.lock().unwrap().send(()).unwrap();
        let told = self.go_on.lock().unwrap().recv();
        told.map_err(io::Error::other)?;
        Ok(buf.len())
    }
    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn start_writeback(&self, _: u64, _: u64) {}
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn punch(&self, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn allocated(&self) -> io::Result<u64> {
        Ok(0)
    }
    fn links(&self) -> io::Result<u64> {
        Ok(1)
    }
    fn advise(&self, _: AccessPattern) {}
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

fn gated() -> (Arc<Gated>, Receiver<()>, Sender<()>) {
    let (begun, has_begun) = channel();
    let (let_go, go_on) = channel();
    let (begun, go_on) = (Mutex::new(begun), Mutex::new(go_on));
    let (reads, panics_when_closed) = (AtomicUsize::new(0), AtomicBool::new(false));
    (Arc::new(Gated { reads, begun, go_on, panics_when_closed }), has_begun, let_go)
}

#[test]
fn dropping_a_batch_cancels_what_has_not_begun() {
    let pool = ThreadPool::new(1);
    let (stall_controller, has_begun, let_go) = gated();
    let file: Arc<dyn File> = stall_controller.clone();
    let pending = pool.submit((0..5).map(|_| request(&file, 0, 1)).collect());
    has_begun.recv().unwrap();
    drop(pending);
    assert_eq!(
        Arc::strong_count(&stall_controller),
        3,
        "ours, the one that is read, and the local handle"
    );
    let_go.send(()).unwrap();
    drop(pool); // waits for its threads
    assert_eq!(stall_controller.reads.load(Ordering::SeqCst), 1);
    assert_eq!(Arc::strong_count(&stall_controller), 2);
}

/// A worker gave the result away before it let go of the file. A test whose cursor had read all,
/// and was dropped, found a removed segment open where the worker had lost its processor in
/// between.
#[test]
fn whoever_has_a_result_finds_the_file_closed() {
    let pool = ThreadPool::new(1);
    let (gate, has_begun, let_go) = gated();
    for _ in 0..500 {
        let mut pending = pool.submit(vec![request(&(gate.clone() as Arc<dyn File>), 0, 1)]);
        has_begun.recv().unwrap();
        let_go.send(()).unwrap();
        assert_eq!(*pending.take(0).unwrap(), [0]);
        assert_eq!(Arc::strong_count(&gate), 1);
    }
}

#[test]
fn a_result_does_not_wait_behind_other_batches() {
    let pool = ThreadPool::new(1);
    let (stall_controller, has_begun, let_go) = gated();
    let file: Arc<dyn File> = stall_controller;
    let mut stuck = pool.submit(vec![request(&file, 0, 1)]);
    has_begun.recv().unwrap(); // the only thread is busy now
    let directory = ScratchDir::new();
    let data = patterned_file(&directory, 100);
    let mut pending = pool.submit(vec![request(&data, 1, 2), request(&data, 5, 1)]);
    assert_eq!(*pending.take(0).unwrap(), [1, 2]);
    assert_eq!(*pending.take(1).unwrap(), [5]);
    let_go.send(()).unwrap();
    assert_eq!(*stuck.take(0).unwrap(), [0]);
}

#[test]
fn results_outlive_the_reader() {
    let directory = ScratchDir::new();
    let file = patterned_file(&directory, 1000);
    for reader in readers() {
        let mut pending = reader.submit((0..100).map(|at| request(&file, at, 3)).collect());
        drop(reader);
        for at in 0..100 {
            assert_eq!(*pending.take(at).unwrap(), pattern(at, 3));
        }
    }
}

#[test]
fn a_panic_in_a_read_is_an_error() {
    for reader in readers() {
        let (stall_controller, has_begun, _) = gated();
        drop(has_begun); // reporting that the read has begun now panics
        let file: Arc<dyn File> = stall_controller;
        let mut pending = reader.submit(vec![request(&file, 0, 1), request(&file, 0, 1)]);
        for index in [0, 1] {
            let error = pending.take(index).unwrap_err();
            assert_eq!(error.to_string(), "reading the file panicked");
        }
    }
}

/// Guards against the loss of a reader thread by a panic: the reads that it would have made then
/// came one by one, and nobody noticed.
#[test]
fn a_panic_while_a_file_is_closed_does_not_cost_a_thread() {
    let pool = ThreadPool::new(1);
    let (stall_controller, has_begun, let_go) = gated();
    stall_controller.panics_when_closed.store(true, Ordering::SeqCst);
    let file: Arc<dyn File> = stall_controller;
    let mut pending = pool.submit(vec![request(&file, 0, 1)]);
    has_begun.recv().unwrap();
    drop(file); // the thread has the last handle now
    let_go.send(()).unwrap();
    assert_eq!(*pending.take(0).unwrap(), [0]);
    let (stall_controller, has_begun, let_go) = gated();
    let file: Arc<dyn File> = stall_controller;
    let mut pending = pool.submit(vec![request(&file, 0, 1)]);
    has_begun.recv_timeout(Duration::from_secs(60)).expect("the thread still reads");
    let_go.send(()).unwrap();
    assert_eq!(*pending.take(0).unwrap(), [0]);
}

#[test]
fn the_wanted_way_of_reading_is_chosen() {
    let name =
        |parallel_reads| Env::os(&OsSettings { parallel_reads, read_threads: 2 }).reader.name();
    assert_eq!(name(ParallelReads::Off), "one by one");
    assert_eq!(name(ParallelReads::Threads), "threads");
    let expected = if ring().is_some() { "io_uring" } else { "threads" };
    assert_eq!(name(ParallelReads::IoUring), expected);
}

/// Prints how fast each way of reading is; it checks nothing. Run it with
/// `cargo test --release --features io-uring -- --ignored --nocapture compare_ways_of_reading`.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "measures, and writes 2 GiB to the directory for temporary files"]
fn compare_ways_of_reading() {
    use rustix::fs::Advice::DontNeed;
    const FILE_BYTES: u64 = 2 << 30;
    const READS: usize = 20_000;
    let directory = ScratchDir::new();
    let env = Env::os(&OsSettings::default());
    let file = env.fs.create(&directory.path().join("data")).unwrap();
    let chunk = vec![1; 1 << 20];
    (0..FILE_BYTES >> 20).for_each(|at| file.write_at(&chunk, at << 20).unwrap());
    file.sync().unwrap();
    file.advise(AccessPattern::Random);
    let mut ways: Vec<(&str, Box<dyn BatchReader>)> =
        vec![("one by one", Box::new(OneByOne::default()))];
    for (name, threads) in [("8 threads", 8), ("32 threads", 32), ("64 threads", 64)] {
        ways.push((name, Box::new(ThreadPool::new(threads))));
    }
    ways.extend(ring().map(|ring| ("ring", ring)));
    for window in [32, 64, 256] {
        for (name, reader) in &ways {
            rustix::fs::fadvise(file.descriptor().unwrap(), 0, None, DontNeed).unwrap();
            let start = env.clock.now();
            for _ in 0..READS / window {
                let random = || env.random.next_u64() % (FILE_BYTES / 4096) * 4096;
                let requests = (0..window).map(|_| request(&file, random() as usize, 4096));
                let mut pending = reader.submit(requests.collect());
                (0..window).for_each(|index| drop(pending.take(index).unwrap()));
            }
            let rate = (READS / window * window) as f64 / (env.clock.now() - start).as_secs_f64();
            println!("window {window}, {name}: {rate:.0} reads per second");
        }
    }
}
