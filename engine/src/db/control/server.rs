//! The threads of the control socket: one waits for clients, and each client has one of its own
//! until it has its answer. So a client that is slow, or asks for something long, holds up nobody.
//!
//! What a client may cost is bounded: the length of its request, the time for sending it and for
//! taking the answer, and how many there may be at once. While nobody asks, the waiting thread
//! sleeps in the system, and nothing else is there.
//!
//! The threads have no hold on the database that would keep it open. Closing it shuts the socket,
//! lets requests under way end early, and waits for them.
//!
//! Lock: `clients`, a leaf.

use super::answer::{ControlAnswer, answer};
use super::request::{MAX_REQUEST_BYTES, parse};
use crate::db::Core;
use crate::env::Env;
use crate::env::sockets::{Connection, SocketListener};
use crate::env::sync::Mutex;
use crate::env::threads::Join;
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Clients that are served at a time; others are told to come again.
pub(super) const MAX_CLIENTS: usize = 8;
/// The time that a client has to send its request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// The time that a client has to take its answer, which may have megabytes.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The time that a client still has to take its answer once the database closes.
const LAST_ANSWER_TIME: Duration = Duration::from_secs(1);
/// The longest wait for a client before it is looked whether the database closes.
const STEP: Duration = Duration::from_millis(200);
/// The pause after a failure to accept a client, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The threads that answer at the control socket of one open database.
pub(crate) struct ControlServer {
    shared: Arc<Shared>,
    waiting: Mutex<Option<Box<dyn Join>>>,
}

struct Shared {
    env: Env,
    core: Weak<Core>,
    listener: Arc<dyn SocketListener>,
    closing: AtomicBool,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    /// Those that are served, by number.
    served: BTreeMap<u64, Arc<dyn Connection>>,
    /// The threads that serve or served them.
    threads: BTreeMap<u64, Box<dyn Join>>,
    count: u64,
}

impl ControlServer {
    /// Starts the thread that waits for clients.
    pub(super) fn start(
        core: &Arc<Core>,
        listener: Arc<dyn SocketListener>,
    ) -> io::Result<ControlServer> {
        let shared = Arc::new(Shared {
            env: core.env.clone(),
            core: Arc::downgrade(core),
            listener,
            closing: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let served = shared.clone();
        let work = Box::new(move || served.wait_for_clients());
        let waiting = match core.env.threads.spawn("cleave-control", work) {
            Ok(thread) => Mutex::new(Some(thread)),
            Err(error) => {
                // Nobody would answer there. If it can't go, the next opening replaces it.
                let _ = shared.listener.remove();
                return Err(error);
            }
        };
        Ok(ControlServer { shared, waiting })
    }

    /// Accepts no more clients and no more requests. Those under way go on.
    pub(crate) fn shut(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.listener.shut();
        for connection in self.shared.clients.lock().served.values() {
            connection.end_reading();
        }
    }

    /// Waits until everybody has an answer, and removes the socket. Requires that the database
    /// closes, so that long jobs end early.
    pub(crate) fn end(&self) {
        // A panic of the thread was in a call of the system's; there is nobody to tell.
        let waiting = self.waiting.lock().take();
        let _ = waiting.map(|thread| thread.join());
        let threads = std::mem::take(&mut self.shared.clients.lock().threads);
        for thread in threads.into_values() {
            // Panics are caught where they happen.
            let _ = thread.join();
        }
        // The lock is still held, so this is our socket. If it can't be removed, or a crash leaves
        // it, the next opening replaces it.
        let _ = self.shared.listener.remove();
    }
}

impl Shared {
    fn wait_for_clients(self: Arc<Self>) {
        while !self.is_closing() {
            match self.listener.accept() {
                Ok(Some(connection)) => self.welcome(connection),
                Ok(None) => break,
                Err(_) => self.env.threads.sleep(PAUSE),
            }
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Has a client served on a thread of its own, if not too many are.
    fn welcome(self: &Arc<Self>, connection: Arc<dyn Connection>) {
        self.part_from_served();
        let mut clients = self.clients.lock();
        let number = clients.count;
        let shared = self.clone();
        let served = connection.clone();
        let work = move || {
            // A defect in a report must not end the thread with the client still counted.
            let _ = catch_unwind(AssertUnwindSafe(|| shared.serve(&*served)));
            shared.clients.lock().served.remove(&number);
        };
        let is_full = clients.served.len() >= MAX_CLIENTS;
        let spawned = match is_full || self.is_closing() {
            true => None,
            false => self.env.threads.spawn("cleave-answer", Box::new(work)).ok(),
        };
        let Some(thread) = spawned else {
            drop(clients);
            let busy = ControlAnswer::busy();
            // It has less bytes than any new connection has room for, so nobody waits here.
            let _ = connection.write(&busy.bytes(), STEP);
            return;
        };
        clients.served.insert(number, connection);
        clients.threads.insert(number, thread);
        clients.count += 1;
    }

    /// Joins the threads whose clients have their answer.
    fn part_from_served(&self) {
        let mut clients = self.clients.lock();
        let Clients { served, threads, .. } = &mut *clients;
        let done: Vec<u64> =
            threads.keys().filter(|number| !served.contains_key(number)).copied().collect();
        let done: Vec<_> = done.iter().filter_map(|number| threads.remove(number)).collect();
        drop(clients);
        for thread in done {
            // Panics are caught where they happen.
            let _ = thread.join();
        }
    }

    /// Reads a request and answers it. A client that goes away, or is too slow, gets no answer.
    fn serve(&self, connection: &dyn Connection) {
        let answer = match self.read_request(connection) {
            Ok(Some(line)) => match (parse(&line), self.core.upgrade()) {
                (Err(reason), _) => ControlAnswer::refused(&reason),
                (Ok(_), None) => ControlAnswer::closing(),
                (Ok(request), Some(core)) => answer(&core, &request),
            },
            Ok(None) => ControlAnswer::refused("the request is too long, or it has no line end"),
            Err(_) => return,
        };
        // The client's end is its own matter.
        let _ = self.write(connection, &answer.bytes());
    }

    /// Reads up to the line end; `None` if there is none within the bound.
    fn read_request(&self, connection: &dyn Connection) -> io::Result<Option<Vec<u8>>> {
        let until = self.env.clock.now().saturating_add(REQUEST_TIME);
        let (mut line, mut buffer) = (Vec::new(), [0; 512]);
        loop {
            let left = self.env.clock.left(until);
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let read = connection.read(&mut buffer, left)?;
            let part = &buffer[..read];
            if let Some(end) = part.iter().position(|&byte| byte == b'\n') {
                line.extend_from_slice(&part[..end]);
                return Ok((line.len() < MAX_REQUEST_BYTES).then_some(line));
            }
            line.extend_from_slice(part);
            if read == 0 || line.len() >= MAX_REQUEST_BYTES {
                return Ok(None);
            }
        }
    }

    fn write(&self, connection: &dyn Connection, mut bytes: &[u8]) -> io::Result<()> {
        let mut until = self.env.clock.now().saturating_add(ANSWER_TIME);
        while !bytes.is_empty() {
            if self.is_closing() {
                until = until.min(self.env.clock.now().saturating_add(LAST_ANSWER_TIME));
            }
            let left = self.env.clock.left(until);
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match connection.write(bytes, left.min(STEP)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
