//! All decoders on the same bytes, whatever those are, for tests and for fuzzing.

use super::block::{BlockWalk, HandleCoding, handles};
use super::codec::{decompressed, unpack};
use super::edit::fields;
use super::footer::{FOOTER_BYTES, TableFooter};
use super::live::LiveSet;
use super::log::LogWalk;
use super::logged::writes;

/// Decodes the bytes as everything that a store has, and returns what came out that can be decoded
/// further: records, and blocks.
pub(crate) fn decode_all(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut inner = Vec::new();
    let mut log = LogWalk::new(bytes, 7);
    while let Ok(Some((_, record))) = log.next() {
        inner.push(record.into_owned());
    }
    let _ = (LiveSet::read(bytes), fields(bytes, |_| Ok(())), writes(bytes, |_| Ok(())));
    for is_delta in [false, true] {
        for has_first_key in [false, true] {
            let _ = handles(bytes, HandleCoding { is_delta, has_first_key });
        }
    }
    if let Ok(mut block) = BlockWalk::new(bytes.to_vec()) {
        while let Ok(true) = block.advance() {
            assert!(block.key().len() + block.value().len() <= 2 * bytes.len() + bytes.len());
        }
    }
    for kind in [1, 2, 4, 7] {
        for version in [0, 2, 6] {
            let _ = decompressed(version, kind, bytes);
        }
    }
    let end = &bytes[bytes.len() - bytes.len().min(FOOTER_BYTES)..];
    if let Ok(footer) = TableFooter::decode(end, bytes.len() as u64) {
        inner.extend(blocks(&footer, bytes));
    }
    inner
}

/// Returns the metaindex and index of a table, and what they name.
fn blocks(footer: &TableFooter, bytes: &[u8]) -> Vec<Vec<u8>> {
    let named = |handle: &super::footer::BlockSpan| {
        let begin = usize::try_from(handle.offset).ok()?;
        let end = begin.checked_add(usize::try_from(handle.size).ok()?)?.checked_add(5)?;
        unpack(footer, bytes.get(begin..end)?, handle.offset).ok()
    };
    let tops: Vec<_> = [Some(footer.metaindex), footer.index].into_iter().flatten().collect();
    let tops: Vec<_> = tops.iter().filter_map(named).collect();
    let below =
        tops.iter().flat_map(|top| handles(top, HandleCoding::default()).unwrap_or_default());
    let below: Vec<_> = below.collect();
    let below: Vec<_> = below.iter().filter_map(named).collect();
    tops.into_iter().chain(below).collect()
}
