//! `cleave metrics`: shows what a monitoring system would be told, or tells it.

use crate::http::{self, Page};
use crate::live::LiveStore;
use crate::open;
use crate::outcome::{Outcome, Status, Stop};
use crate::output::{Output, note};
use clap::Args;
use cleavedb::{Error, Stats};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// Print the statistics as OpenMetrics text, which Prometheus and others read
///
/// If a process has the database open for writing, they are that process's. Counters begin at 0
/// with each opening, so without such a process they tell only what this opening did.
#[derive(Args)]
pub(crate) struct Metrics {
    /// The database's directory
    dir: PathBuf,

    /// Serve them over HTTP at this address, for as long as the command runs; a port alone is one
    /// of 127.0.0.1. Whoever can connect there can read them
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
}

/// Parses `127.0.0.1:9100`, `[::1]:9100`, or a port alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
    let local = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    local
        .or_else(|_| text.parse())
        .map_err(|_| "give a port, or an address such as [::1]:9100".into())
}

pub(crate) fn run(args: &Metrics) -> Outcome {
    if let Some(address) = args.listen {
        return serve(&args.dir, address);
    }
    let text = match LiveStore::announced(&args.dir) {
        Some(live) => live.ask("metrics")?,
        None => open::to_read(&args.dir)?.stats().to_openmetrics(),
    };
    let mut out = Output::new();
    out.line(text.trim_end())?;
    out.finish()?;
    Ok(Status::Done)
}

/// Serves the metrics of whichever process has the database open when somebody asks.
fn serve(dir: &Path, address: SocketAddr) -> Outcome {
    let failed = |error| Stop::Error(Error::io("listen", Path::new(&address.to_string()), error));
    let listener = TcpListener::bind(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    note!("serving http://{bound}/metrics");
    let dir = dir.to_path_buf();
    http::serve(&listener, move |path| page(&dir, path)).map_err(failed)?;
    Ok(Status::Done)
}

fn page(dir: &Path, path: &str) -> Page {
    if path != "/metrics" {
        return Page::plain("404 Not Found", "the metrics are at /metrics\n");
    }
    let Some(live) = LiveStore::find(dir) else {
        return Page::plain("503 Service Unavailable", "no process has the database open\n");
    };
    match live.ask("metrics") {
        Ok(body) => Page { status: "200 OK", kind: Stats::OPENMETRICS, body },
        Err(error) => Page::plain("503 Service Unavailable", &format!("{error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_machine() {
        assert_eq!(address("9100"), Ok("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(address(":9100"), Ok("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        for bad in ["", "host", "1.2.3.4", "99999"] {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
