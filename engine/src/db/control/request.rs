//! Reads a request at the control socket. The bytes come from another process, so any are possible.

use super::PROTOCOL;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

/// The most bytes of a request, its line end included. The longest ones have a path.
pub(crate) const MAX_REQUEST_BYTES: usize = 4 << 10;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlRequest {
    /// The statistics as JSON.
    Stats,
    /// The statistics as text for people.
    StatsText,
    /// The statistics as OpenMetrics.
    Metrics,
    /// The report of space as JSON.
    Space,
    /// The report of space as text for people.
    SpaceText,
    /// The tables with stale entries, of one keyspace or of all.
    Hot(Option<String>),
    /// The settings of the database and its keyspaces.
    Settings,
    /// What runs now.
    Jobs,
    /// What happened lately.
    Events,
    /// A collection of dead values.
    Gc,
    /// A compaction of one keyspace or of all.
    Compact(Option<String>),
    /// A checkpoint in a new directory.
    Checkpoint(PathBuf),
    /// A new point in a backup directory.
    Backup {
        dir: PathBuf,
        /// The number of points to keep.
        keep: Option<usize>,
        /// The most bytes per second.
        rate: Option<u64>,
        /// True if what the backup has is read as well.
        verify: bool,
    },
    /// No more automatic value GC.
    Pause,
    /// Automatic value GC again.
    Resume,
}

/// Reads a request, without its line end. The error is a sentence for the client.
pub(crate) fn parse(line: &[u8]) -> Result<ControlRequest, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    if words.next() != Some(PROTOCOL.as_bytes()) {
        return Err(format!("a request begins with \"{PROTOCOL} \", the version of the protocol"));
    }
    let command = words.next().ok_or("the command is missing")?;
    if command == b"backup" {
        return parse_backup(words);
    }
    let argument = words.next().map(decoded).transpose()?;
    if words.next().is_some() {
        return Err("a request has at most one argument; write a space in it as %20".into());
    }
    let name = |argument: Option<Vec<u8>>| match argument.map(String::from_utf8) {
        None => Ok(None),
        Some(Ok(name)) => Ok(Some(name)),
        Some(Err(_)) => Err("the name of a keyspace is UTF-8".to_owned()),
    };
    let request = match (command, argument) {
        (b"hot", argument) => ControlRequest::Hot(name(argument)?),
        (b"compact", argument) => ControlRequest::Compact(name(argument)?),
        (b"checkpoint", Some(path)) => ControlRequest::Checkpoint(absolute(path)?),
        (b"checkpoint", None) => return Err("the path of the checkpoint is missing".into()),
        (command, argument) => {
            let request = parse_bare(command)?;
            if argument.is_some() {
                return Err("this command takes no argument".into());
            }
            request
        }
    };
    Ok(request)
}

/// Reads the words after `backup`.
fn parse_backup<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Result<ControlRequest, String> {
    let path = words.next().ok_or("the path of the backup is missing")?;
    let dir = absolute(decoded(path)?)?;
    let (mut keep, mut rate, mut verify) = (None, None, false);
    for word in words {
        match std::str::from_utf8(word).unwrap_or_default().split_once('=') {
            None if word == b"verify" => verify = true,
            Some(("keep", number)) => keep = Some(parse_number(number)?),
            Some(("rate", number)) => rate = Some(parse_number(number)?),
            _ => return Err("after the path come keep=N, rate=N or verify".into()),
        }
    }
    Ok(ControlRequest::Backup { dir, keep, rate, verify })
}

fn parse_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "a number has digits only".into())
}

fn absolute(path: Vec<u8>) -> Result<PathBuf, String> {
    let path = PathBuf::from(OsString::from_vec(path));
    if !path.is_absolute() {
        return Err("the path is not absolute".into());
    }
    Ok(path)
}

fn parse_bare(command: &[u8]) -> Result<ControlRequest, String> {
    Ok(match command {
        b"stats" => ControlRequest::Stats,
        b"stats-text" => ControlRequest::StatsText,
        b"metrics" => ControlRequest::Metrics,
        b"space" => ControlRequest::Space,
        b"space-text" => ControlRequest::SpaceText,
        b"settings" => ControlRequest::Settings,
        b"jobs" => ControlRequest::Jobs,
        b"events" => ControlRequest::Events,
        b"gc" => ControlRequest::Gc,
        b"pause" => ControlRequest::Pause,
        b"resume" => ControlRequest::Resume,
        unknown => {
            let shown = unknown.escape_ascii().to_string();
            let shown: String = shown.chars().take(40).collect();
            return Err(format!("the command \"{shown}\" is unknown"));
        }
    })
}

/// Returns the bytes of an argument, in which `%` and two hexadecimal digits stand for a byte.
fn decoded(argument: &[u8]) -> Result<Vec<u8>, String> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let mut bytes = Vec::with_capacity(argument.len());
    let mut rest = argument.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = rest.next().and_then(digit).zip(rest.next().and_then(digit));
        let (high, low) = digits.ok_or("% is followed by two hexadecimal digits")?;
        bytes.push((high << 4 | low) as u8);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_known_by_its_word() {
        let ask = |text: &str| parse(text.as_bytes()).unwrap();
        assert_eq!(ask("cleave/1 stats"), ControlRequest::Stats);
        assert_eq!(ask("cleave/1 stats-text\r"), ControlRequest::StatsText);
        assert_eq!(ask("cleave/1  metrics "), ControlRequest::Metrics);
        assert_eq!(ask("cleave/1 hot"), ControlRequest::Hot(None));
        assert_eq!(ask("cleave/1 hot a%20b%25"), ControlRequest::Hot(Some("a b%".into())));
        assert_eq!(ask("cleave/1 compact x"), ControlRequest::Compact(Some("x".into())));
        let path = PathBuf::from("/a b/\u{e4}");
        assert_eq!(ask("cleave/1 checkpoint /a%20b/%c3%A4"), ControlRequest::Checkpoint(path));
        let bare = ControlRequest::Backup {
            dir: PathBuf::from("/b c"),
            keep: None,
            rate: None,
            verify: false,
        };
        assert_eq!(ask("cleave/1 backup /b%20c"), bare);
        let full = ControlRequest::Backup {
            dir: PathBuf::from("/b"),
            keep: Some(7),
            rate: Some(1_000_000),
            verify: true,
        };
        assert_eq!(ask("cleave/1 backup /b verify rate=1000000 keep=7"), full);
        for (word, request) in [
            ("space", ControlRequest::Space),
            ("space-text", ControlRequest::SpaceText),
            ("settings", ControlRequest::Settings),
            ("jobs", ControlRequest::Jobs),
            ("events", ControlRequest::Events),
            ("gc", ControlRequest::Gc),
            ("pause", ControlRequest::Pause),
            ("resume", ControlRequest::Resume),
        ] {
            assert_eq!(ask(&format!("cleave/1 {word}")), request);
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        for (line, reason) in [
            ("", "begins with"),
            ("GET / HTTP/1.1", "begins with"),
            ("cleave/2 stats", "begins with"),
            ("cleave/1", "is missing"),
            ("cleave/1 sudo", "\"sudo\" is unknown"),
            ("cleave/1 \u{1b}[2J", "\"\\x1b[2J\" is unknown"),
            ("cleave/1 gc now", "no argument"),
            ("cleave/1 checkpoint", "is missing"),
            ("cleave/1 checkpoint monday", "absolute"),
            ("cleave/1 checkpoint /a b", "%20"),
            ("cleave/1 backup", "is missing"),
            ("cleave/1 backup b", "absolute"),
            ("cleave/1 backup /b keep", "keep=N"),
            ("cleave/1 backup /b keep=-1", "digits"),
            ("cleave/1 backup /b rate=", "digits"),
            ("cleave/1 hot %4", "two hexadecimal"),
            ("cleave/1 hot %zz", "two hexadecimal"),
            ("cleave/1 hot %ff", "UTF-8"),
        ] {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{line}: {error}");
        }
        let long = [b"cleave/1 ".as_slice(), &[b'x'; 9999]].concat();
        assert!(parse(&long).unwrap_err().len() < 100);
    }
}
