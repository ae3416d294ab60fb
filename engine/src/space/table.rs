//! A [`SpaceReport`] as tables for people.

use crate::base::size::{counted, sized};
use crate::space::report::{ClassSpace, HolderSpace, KeyspaceSpace, SegmentSpace, SpaceReport};
use crate::version::settings::LARGE_BYTES;
use std::fmt;
use std::time::Duration;

impl fmt::Display for SpaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (allocated, live) = (sized(self.allocated), sized(self.live_bytes));
        write!(f, "{allocated} on disk, {live} live")?;
        if let Some(amplification) = self.amplification() {
            write!(f, ": amplification {amplification:.2}")?;
        }
        if let (Some(settled), Some(ceiling)) = (self.settled_bytes, self.ceiling_bytes) {
            write!(f, ", settles at {}, ceiling {}", sized(settled), sized(ceiling))?;
        }
        writeln!(f, "; as of commit {}", self.seqno)?;
        self.fmt_parts(f)?;
        fmt_classes(&self.classes, f)?;
        fmt_keyspaces(&self.keyspaces, f)?;
        fmt_holders(&self.holders, f)?;
        fmt_segments(&self.segments, f)?;
        for warning in &self.warnings {
            writeln!(f, "\nwarning: {warning}")?;
        }
        Ok(())
    }
}

/// Returns the explanation of a part, for people.
fn meaning(part: &str) -> &'static str {
    match part {
        "live" => "separated values that reads see",
        "pinned" => "separated values that only snapshots and iterators see",
        "garbage" => "the rest of closed segments",
        "log" => "the rest of the log since the head; needed until a flush",
        "tree" => "keys, small values, pointers, indexes, filters",
        "obsolete" => "replaced files that are still read, or about to go",
        "metadata" => "manifest, CURRENT, OPTIONS, LOCK, relocations",
        _ => "files of running jobs, of crashes, and of others",
    }
}

impl SpaceReport {
    fn fmt_parts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stale: u64 = self.keyspaces.iter().map(KeyspaceSpace::stale_table_bytes).sum();
        writeln!(f, "\n{:<10} {:>11} {:>6}", "holds", "on disk", "share")?;
        for (name, bytes) in self.parts.named().filter(|(_, bytes)| *bytes > 0) {
            let (size, percent) = (sized(bytes), share(bytes, self.allocated));
            write!(f, "{name:<10} {size:>11} {percent:>6}  {}", meaning(name))?;
            if name == "tree" && stale > 0 {
                write!(f, "; about {} stale", share(stale, bytes))?;
            }
            writeln!(f)?;
        }
        if self.hole_bytes > 0 {
            let holes = sized(self.hole_bytes);
            writeln!(f, "{:<10} {holes:>11} {:>6}  given back inside of segments", "holes", "")?;
        }
        Ok(())
    }
}

fn fmt_classes(classes: &[ClassSpace], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let heads = ("files", "number", "on disk", "length", "shared");
    writeln!(
        f,
        "\n{:<11} {:>10} {:>11} {:>11} {:>11}",
        heads.0, heads.1, heads.2, heads.3, heads.4
    )?;
    for class in classes {
        let (name, files) = (class.class.name(), class.files);
        let (allocated, length) = (sized(class.allocated), sized(class.length));
        let shared = if class.shared > 0 { sized(class.shared) } else { "-".to_owned() };
        writeln!(f, "{name:<11} {files:>10} {allocated:>11} {length:>11} {shared:>11}")?;
    }
    Ok(())
}

fn fmt_keyspaces(keyspaces: &[KeyspaceSpace], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let width = keyspaces.iter().map(|keyspace| keyspace.name.chars().count()).max();
    let width = width.unwrap_or(0).max("keyspace".len());
    writeln!(
        f,
        "\n{:<width$} {:>10} {:>11} {:>11} {:>11} {:>11} {:>6}  separates values",
        "keyspace", "live keys", "live", "inline", "pinned", "tables", "stale"
    )?;
    for keyspace in keyspaces {
        let (name, entries) = (&keyspace.name, keyspace.entries);
        let [live, inline, pinned, tables] = [
            keyspace.live_bytes(),
            keyspace.inline_bytes,
            keyspace.pinned_bytes,
            keyspace.table_bytes,
        ]
        .map(sized);
        let stale = share(keyspace.stale_table_bytes(), keyspace.table_bytes);
        writeln!(
            f,
            "{name:<width$} {entries:>10} {live:>11} {inline:>11} {pinned:>11} {tables:>11} \
             {stale:>6}  {}",
            policy(keyspace)
        )?;
    }
    keyspaces.iter().try_for_each(|keyspace| fmt_order(keyspace, f))
}

/// Says when large values of a keyspace are separated, and why the engine has chosen that.
fn policy(keyspace: &KeyspaceSpace) -> String {
    let name = keyspace.separation.name();
    match keyspace.separation_reason {
        Some(reason) if keyspace.is_separation_chosen => {
            let large = sized(LARGE_BYTES as u64);
            format!("{name}, by choice: {reason}; from {large} on at_write")
        }
        _ => name.to_owned(),
    }
}

/// Says what scans of a keyspace have lost to strewn values, and what was done about it.
fn fmt_order(keyspace: &KeyspaceSpace, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (cost, ordered) = (keyspace.scan_cost_bytes, keyspace.ordered_bytes);
    if (cost, ordered) == (0, 0) {
        return Ok(());
    }
    writeln!(
        f,
        "{}: strewn values cost scans the time of moving {}; {} were put in order",
        keyspace.name,
        sized(cost),
        sized(ordered)
    )
}

impl fmt::Display for HolderSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = span(self.age);
        match (self.kind, &self.keyspace) {
            ("reader", _) => write!(f, "reads and jobs under way pin ")?,
            ("snapshot", _) => write!(f, "snapshot of commit {}, {age} old, pins ", self.seqno)?,
            (kind, Some(keyspace)) => write!(f, "{kind} on {keyspace}, open for {age}, pins ")?,
            (kind, None) => write!(f, "{kind}, open for {age}, pins ")?,
        }
        write!(f, "{}", sized(self.bytes()))?;
        let mut parts = Vec::new();
        if self.versions > 0 {
            parts.push(counted(self.versions, "old version"));
        }
        if self.files > 0 {
            parts.push(counted(self.files, "replaced file"));
        }
        if !parts.is_empty() {
            write!(f, " ({})", parts.join(", "))?;
        }
        Ok(())
    }
}

fn fmt_holders(holders: &[HolderSpace], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if holders.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nheld by")?;
    for holder in holders.iter().filter(|holder| holder.bytes() > 0) {
        writeln!(f, "  {holder}")?;
    }
    let idle = holders.iter().filter(|holder| holder.bytes() == 0).count() as u64;
    if idle > 0 {
        writeln!(f, "  {idle} more, which {} nothing", if idle == 1 { "pins" } else { "pin" })?;
    }
    Ok(())
}

fn fmt_segments(segments: &[SegmentSpace], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if segments.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "\n{:<8} {:<6} {:>10} {:>10} {:>5} {:>10} {:>10} {:>10} {:>10} {:>9}  why it stays or goes",
        "segment", "kind", "on disk", "live", "", "pinned", "garbage", "holes", "named", "age"
    )?;
    for segment in segments {
        let kind = match (segment.sorted, segment.replay) {
            (true, _) => "sorted",
            (false, true) => "log*",
            (false, false) => "log",
        };
        let shown = |bytes: u64| if bytes == 0 { "-".to_owned() } else { sized(bytes) };
        let [allocated, live, pinned, garbage, holes, named] = [
            segment.allocated,
            segment.live_bytes,
            segment.pinned_bytes,
            segment.garbage_bytes,
            segment.hole_bytes,
            segment.referenced_bytes,
        ]
        .map(shown);
        let percent = share(segment.live_bytes, segment.allocated);
        let age = segment.age.map_or("-".to_owned(), span);
        let shared = if segment.links > 1 { "; shared with a checkpoint" } else { "" };
        writeln!(
            f,
            "{:08} {kind:<6} {allocated:>10} {live:>10} {percent:>5} {pinned:>10} {garbage:>10} \
             {holes:>10} {named:>10} {age:>9}  {}{shared}",
            segment.id, segment.reason
        )?;
    }
    Ok(())
}

/// Formats a share of a whole in percent.
fn share(part: u64, whole: u64) -> String {
    format!("{:.0} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// Formats a duration for people.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}
