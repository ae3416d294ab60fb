//! Checks the rendering of a report, character by character.

use super::report::*;
use crate::version::settings::Separation;
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn report() -> SpaceReport {
    let parts = SpaceParts {
        live: 96 * MIB,
        pinned: 8 * MIB,
        garbage: 16 * MIB,
        log: 4 * MIB,
        tree: 3 * MIB,
        obsolete: 64 * MIB,
        metadata: 12 << 10,
        other: 0,
    };
    SpaceReport {
        seqno: 12345,
        allocated: parts.total(),
        live_bytes: 100 * MIB,
        hole_bytes: 2 * MIB,
        settled_bytes: Some(120 * MIB),
        ceiling_bytes: Some(356 * MIB),
        parts,
        classes: vec![
            ClassSpace {
                class: FileClass::Log,
                files: 2,
                allocated: 5 * MIB,
                length: 64 * MIB,
                shared: 0,
            },
            ClassSpace {
                class: FileClass::Segments,
                files: 3,
                allocated: 119 * MIB,
                length: 121 * MIB,
                shared: 60 * MIB,
            },
        ],
        keyspaces: vec![KeyspaceSpace {
            name: "users".into(),
            entries: 90_000,
            inline_bytes: 4 * MIB,
            separated_bytes: 96 * MIB,
            pinned_entries: 7_000,
            pinned_bytes: 8 * MIB,
            tables: 3,
            table_bytes: 3 * MIB,
            table_entries: 100_000,
            separation: Separation::AtFlush,
            is_separation_chosen: true,
            separation_reason: Some("log_spared"),
            scan_cost_bytes: 90 * MIB,
            ordered_bytes: 40 * MIB,
        }],
        segments: vec![
            SegmentSpace {
                id: 7,
                sealed: true,
                length: 64 * MIB,
                allocated: 62 * MIB,
                live_records: 50_000,
                live_bytes: 46 * MIB,
                referenced_bytes: 60 * MIB,
                garbage_bytes: 16 * MIB,
                hole_bytes: 2 * MIB,
                age: Some(Duration::from_secs(7250)),
                links: 2,
                reason: "kept by live values".into(),
                cells: vec![SpaceCell { live: 70, garbage: 20, hole: 10, ..Default::default() }],
                ..Default::default()
            },
            SegmentSpace {
                id: 12,
                sorted: true,
                replay: true,
                length: 0,
                links: 1,
                reason: "say \"why\"".into(),
                ..Default::default()
            },
        ],
        holders: vec![
            holder("snapshot", None, 190, (7_000, 8 * MIB), (0, 0)),
            holder("cursor", Some("users"), 192, (0, 0), (1, 64 * MIB)),
            holder("iterator", Some("users"), 90_000, (0, 0), (0, 0)),
            holder("reader", None, 0, (1, 100), (2, 100)),
        ],
        warnings: vec!["1 file (4.0 KiB) not CleaveDB's: notes.txt".into()],
    }
}

fn holder(
    kind: &'static str,
    keyspace: Option<&str>,
    seconds: u64,
    (versions, version_bytes): (u64, u64),
    (files, file_bytes): (u64, u64),
) -> HolderSpace {
    HolderSpace {
        kind,
        keyspace: keyspace.map(str::to_owned),
        age: Duration::from_secs(seconds),
        seqno: 99,
        versions,
        version_bytes,
        files,
        file_bytes,
    }
}

#[test]
fn as_tables() {
    let text = report().to_string();
    assert_eq!(text, include_str!("golden/table.txt"), "\n{text}");
}

#[test]
fn without_anything() {
    let nothing = SpaceReport {
        parts: SpaceParts::default(),
        allocated: 0,
        live_bytes: 0,
        settled_bytes: None,
        ceiling_bytes: None,
        ..report()
    };
    assert!(nothing.amplification().is_none());
    let text = nothing.to_string();
    assert!(text.starts_with("0 B on disk, 0 B live; as of commit 12345\n"), "{text}");
    let json = nothing.to_json();
    assert!(json.contains("\"amplification\":null,\"settled_bytes\":null,\"ceiling_bytes\":null"));
}

#[test]
fn as_json() {
    let json = report().to_json();
    assert_eq!(json, include_str!("golden/report.json").trim_end(), "\n{json}");
}

#[test]
fn stale_tables_are_estimated() {
    let keyspace = &report().keyspaces[0];
    assert_eq!(keyspace.stale_table_bytes(), 3 * MIB * 3 / 100);
    let fresh = KeyspaceSpace { table_entries: 90_000, ..keyspace.clone() };
    assert_eq!(fresh.stale_table_bytes(), 0);
    assert_eq!(KeyspaceSpace::default().stale_table_bytes(), 0);
}
