//! Serves pages over plain HTTP/1.1 to programs that collect metrics. Everything that a client may
//! cost is bounded: its request, its time, and how many there are at once.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Clients that are served at a time. The connections of others are closed at once.
const MAX_CLIENTS: usize = 16;
/// The time that a client has for its request and for taking the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A page.
pub(crate) struct Page {
    pub(crate) status: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: String,
}

impl Page {
    /// Returns a page of plain text.
    pub(crate) fn plain(status: &'static str, text: &str) -> Page {
        Page { status, kind: "text/plain; charset=utf-8", body: text.to_owned() }
    }
}

/// The pause after a failure to accept a client, such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers each GET with what `page` returns for its path. Returns only if the listener can't
/// accept any.
pub(crate) fn serve(
    listener: &TcpListener,
    page: impl Fn(&str) -> Page + Send + Sync + 'static,
) -> io::Result<()> {
    let (page, served) = (Arc::new(page), Arc::new(AtomicUsize::new(0)));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            // The client has gone, or descriptors or memory are short. A collector comes again, and
            // so must not find that this has ended.
            Err(error) => {
                if !is_of_client(&error) {
                    rest();
                }
                continue;
            }
        };
        let place = Place::take(&served);
        let page = page.clone();
        let Some(place) = place else { continue };
        // Without a thread, the client is closed with the closure that is not run.
        let _ = std::thread::Builder::new().spawn(move || {
            // A client that fails has nobody to tell.
            let _ = answer(&stream, &*page);
            drop(place);
        });
    }
}

#[expect(clippy::disallowed_methods, reason = "nothing tells when descriptors are there again")]
fn rest() {
    std::thread::sleep(PAUSE);
}

/// Returns true for failures that only concern the client that was about to be accepted.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// A place among the clients that are served.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(served: &Arc<AtomicUsize>) -> Option<Place> {
        let place = Place(served.clone());
        (served.fetch_add(1, Ordering::Relaxed) < MAX_CLIENTS).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn answer(stream: &TcpStream, page: &dyn Fn(&str) -> Page) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let head = read_head(stream, until)?;
    let (page, with_body) = match parse_head(&head) {
        Ok((method, path)) => (page(path), method == "GET"),
        Err(page) => (page, true),
    };
    let Page { status, kind, body } = page;
    let length = body.len();
    let mut text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    );
    if with_body {
        text += &body;
    }
    write(stream, text.as_bytes(), until)
}

/// Reads up to the empty line, or what comes before the bound.
fn read_head(mut stream: &TcpStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !is_whole(&head) && head.len() < MAX_HEAD_BYTES {
        stream.set_read_timeout(Some(left(until)?))?;
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        head.extend_from_slice(&buffer[..read]);
    }
    Ok(head)
}

/// Returns true if a head has its empty line. Some write lines without a carriage return.
fn is_whole(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end());
    // What is behind the last line end is no line yet.
    lines.next_back();
    lines.skip(1).any(<[u8]>::is_empty)
}

fn write(mut stream: &TcpStream, mut bytes: &[u8], until: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let written = stream.write(bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Returns the time that is left, or an error if none is.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Returns the method and the path of a request, or the page that says why there is none.
fn parse_head(head: &[u8]) -> Result<(&str, &str), Page> {
    let bad = || Page::plain("400 Bad Request", "this is no HTTP request\n");
    if head.len() >= MAX_HEAD_BYTES {
        return Err(Page::plain(
            "431 Request Header Fields Too Large",
            "the request is too long\n",
        ));
    }
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line.trim_ascii_end()).map_err(|_| bad())?;
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.0" | "HTTP/1.1"] = words[..] else { return Err(bad()) };
    if !matches!(method, "GET" | "HEAD") {
        return Err(Page::plain("405 Method Not Allowed", "only GET and HEAD are known\n"));
    }
    // What a proxy would be asked for has the host before the path; every server must take that.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    Ok((method, path.split('?').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &[u8]) -> &'static str {
        parse_head(head).err().map_or("200", |page| page.status)
    }

    #[test]
    fn requests_are_read_and_others_refused() {
        let head = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(parse_head(head).ok(), Some(("GET", "/metrics")));
        assert_eq!(status(b"HEAD / HTTP/1.0\r\n\r\n"), "200");
        assert_eq!(status(b"POST / HTTP/1.1\r\n\r\n"), "405 Method Not Allowed");
        for bad in
            [b"".as_slice(), b"\xff\r\n", b"GET /", b"GET / HTTP/2\r\n", b"GET  / HTTP/1.1\r\n"]
        {
            assert_eq!(status(bad), "400 Bad Request");
        }
        let absolute = b"GET http://host:1/metrics HTTP/1.1\n\n";
        assert_eq!(parse_head(absolute).ok(), Some(("GET", "/metrics")));
        assert_eq!(status(&[b'x'; MAX_HEAD_BYTES]), "431 Request Header Fields Too Large");
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        for whole in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\n\n"] {
            assert!(is_whole(whole.as_bytes()));
            assert!(!is_whole(&whole.as_bytes()[..whole.len() - 1]));
        }
        assert!(!is_whole(b"") && !is_whole(b"\r\n"));
    }
}
