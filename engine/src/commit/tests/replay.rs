//! Golden cases of what a replay of the log hands out, and of what it says about the log's end.
//!
//! - `segment 2`: a log segment that follows the one before, unless `first=7` and `after=1:188` say
//!   in its head what it follows. `unsynced=1` says in its head that segment 1 was not synced yet.
//! - `frame 3`: a commit of three records in the last segment; `sync` makes all before it durable.
//! - `sealed`: the manifest knows the length of the last segment.
//! - `cut 10`, `zero 10`, `flip 10`: the last ten bytes of the last segment, at most all, are
//!   missing, zero or damaged; `prepared 500` adds zeroes behind its end; `head cut`, `head flip`:
//!   its head is torn.
//! - `empty 3`: a segment that was prepared and never begun.
//! - `from 1:143`: the head of the log.

use crate::base::golden::{golden, number, pair};
use crate::base::key::{KeyOrder, SeqNo};
use crate::base::pointer::{KeyspaceId, SegmentId};
use crate::commit::replay::{Replayed, replay};
use crate::env::Env;
use crate::env::fs::File;
use crate::segment::{
    HEAD_BYTES, RecordInput, Segment, SegmentHead, SegmentKind, SegmentWriter, WriterSettings,
};
use crate::version::build::VersionBuilder;
use crate::version::edit::{Change, Edit};
use crate::version::files::{TableContext, TableLimits, names};
use crate::version::{LogPosition, Version};
use std::path::Path;
use std::sync::Arc;

const DATABASE: u64 = 7;
const DIR: &str = "db";

#[test]
fn i02_golden_what_replay_hands_out() {
    golden("commit/testdata/replay.txt", run);
}

/// The log that the lines describe.
struct LogOfCase {
    env: Env,
    changes: Vec<Change>,
    last: Option<(SegmentWriter, Arc<dyn File>)>,
    next_seqno: SeqNo,
}

fn run(lines: &[&str]) -> String {
    let (env, _) = Env::simulated(1);
    env.fs.create_dir_all(Path::new(DIR)).unwrap();
    let mut log = LogOfCase { env, changes: Vec::new(), last: None, next_seqno: 1 };
    lines.iter().for_each(|line| log.line(&line.split(' ').collect::<Vec<_>>()));
    let version = log.version();
    let mut frames: Vec<(LogPosition, u64, Vec<SeqNo>)> = Vec::new();
    let report = replay(&log.env, &version, &mut |replayed: Replayed<'_>| {
        assert_eq!(replayed.segment.id(), replayed.at.segment);
        if frames.last().is_none_or(|frame| frame.0 != replayed.at) {
            frames.push((replayed.at, replayed.log_bytes, Vec::new()));
        }
        frames.last_mut().unwrap().2.push(replayed.record.seqno);
        Ok(())
    });
    let mut text = String::new();
    for (at, before, seqnos) in frames {
        text += &format!("{}:{} {seqnos:?} after {before} bytes\n", at.segment, at.offset);
    }
    let report = match report {
        Ok(report) => report,
        Err(error) => return text + &format!("{:?}: {error}\n", error.kind()),
    };
    text += &format!(
        "seqno {}, {} records, {} bytes\n",
        report.last_seqno, report.records, report.bytes
    );
    if let Some((id, end)) = report.last {
        text += &format!("ends at {id}:{end}\n");
    }
    report.sealed.iter().for_each(|(id, end)| text += &format!("found the end {id}:{end}\n"));
    report.never_begun.iter().for_each(|id| text += &format!("{id} was never begun\n"));
    report.behind.iter().for_each(|id| text += &format!("{id} is behind the end\n"));
    for torn in report.torn {
        text += &format!("{}:{} {} torn bytes\n", torn.segment, torn.offset, torn.bytes);
    }
    text
}

impl LogOfCase {
    fn line(&mut self, words: &[&str]) {
        match *words {
            ["segment", id, ref head @ ..] => self.begin(SegmentId(number(id)), head),
            ["empty", id] => drop(self.add(SegmentId(number(id)))),
            ["frame", count] => self.frame(number(count)),
            ["sync"] => self.writer().syncer().sync().unwrap(),
            ["sealed"] => {
                let (id, length) = (self.writer().segment().id(), self.writer().len());
                self.changes.push(Change::SealSegment { id, length });
            }
            ["from", at] => {
                let (id, offset) = at.split_once(':').expect(at);
                let (segment, offset) = (SegmentId(number(id)), number(offset));
                self.changes.push(Change::Head(LogPosition { segment, offset }));
            }
            ["head", how] => self.damage(how, 30, HEAD_BYTES as u64),
            [how, bytes] => {
                let end = self.file().len().unwrap();
                self.damage(how, number(bytes), end);
            }
            _ => panic!("{words:?}"),
        }
    }

    fn writer(&mut self) -> &mut SegmentWriter {
        &mut self.last.as_mut().expect("a segment").0
    }

    fn file(&self) -> &Arc<dyn File> {
        &self.last.as_ref().expect("a segment").1
    }

    fn add(&mut self, id: SegmentId) -> Arc<dyn File> {
        self.changes.push(Change::AddSegment { id, kind: SegmentKind::Log, epoch: id.0 + 40 });
        self.env.fs.create(&names::segment(Path::new(DIR), id)).unwrap()
    }

    fn begin(&mut self, id: SegmentId, words: &[&str]) {
        let previous = self.last.as_ref().map(|(writer, _)| (writer.segment().id(), writer.len()));
        let file = self.add(id);
        let mut head = SegmentHead {
            database: DATABASE,
            id,
            kind: SegmentKind::Log,
            is_encrypted: false,
            epoch: id.0 + 40,
            first_seqno: self.next_seqno,
            previous: previous.map(|(id, _)| id),
            previous_bytes: previous.map_or(0, |(_, bytes)| bytes),
            first_unsynced: None,
        };
        for word in words {
            match pair(word) {
                ("first", seqno) => head.first_seqno = number(seqno),
                ("unsynced", id) => head.first_unsynced = Some(SegmentId(number(id))),
                ("after", previous) => {
                    let (id, bytes) = previous.split_once(':').expect(previous);
                    head.previous = Some(SegmentId(number(id)));
                    head.previous_bytes = number(bytes);
                }
                _ => panic!("{word}"),
            }
        }
        self.next_seqno = head.first_seqno;
        let (path, source) = (names::segment(Path::new(DIR), id), Arc::new(file.clone()));
        let segment = Arc::new(Segment::for_writing(head.identity(), path, source));
        let settings = WriterSettings { prepare_bytes: 0, ..WriterSettings::default() };
        let writer = SegmentWriter::activate(file.clone(), segment, &head, settings).unwrap();
        self.last = Some((writer, file));
    }

    fn frame(&mut self, count: u64) {
        let seqno = self.next_seqno;
        let records: Vec<_> =
            (0..count).map(|_| RecordInput::put(KeyspaceId(1), b"key", b"value")).collect();
        self.writer().append(seqno, &records, &mut Vec::new()).unwrap();
        self.writer().write_out().unwrap();
        self.next_seqno += count;
    }

    /// Damages the `bytes` before `end`.
    fn damage(&mut self, how: &str, bytes: u64, end: u64) {
        let file = self.file();
        let start = if how == "prepared" { end } else { end.saturating_sub(bytes) };
        let mut content = vec![0; bytes as usize];
        match how {
            "cut" => return file.set_len(start).unwrap(),
            "prepared" => return file.set_len(end + bytes).unwrap(),
            "flip" => {
                file.read_at(&mut content, start).unwrap();
                content.iter_mut().for_each(|byte| *byte ^= 0x55);
            }
            "zero" => {}
            _ => panic!("{how}"),
        }
        file.write_at(&content, start).unwrap();
    }

    fn version(&self) -> Version {
        let tables = Arc::new(TableContext::new(
            self.env.fs.clone(),
            DIR.into(),
            DATABASE,
            TableLimits::TESTS,
        ));
        let comparator_of = |_: &str| Ok(KeyOrder::Bytewise);
        let builder = VersionBuilder { tables: &tables, comparator_of: &comparator_of };
        let mut version = Version::default();
        builder.apply_to(&mut version, &Edit::new(self.changes.clone())).unwrap();
        version
    }
}
