//! Compares a whole store with what was written to it: the newest version of every key, from a
//! repetition of the work, which must have been that of one thread each time.

use crate::engines::Engine;
use crate::generator::{self, Kind, Shape, Stream};

/// `history` names the workloads in order, `load:0:1000,overwrite-zipf:1:500`: stage and
/// operations of each.
pub fn run(
    engine: &dyn Engine,
    shape: Shape,
    value_bytes: usize,
    history: &str,
) -> Result<String, String> {
    let mut newest = vec![None; shape.keys as usize];
    for entry in history.split(',') {
        let wrong = || format!("history: `{entry}` is not workload:stage:operations");
        let [workload, stage, ops] = entry.split(':').collect::<Vec<_>>()[..] else {
            return Err(wrong());
        };
        let stage = stage.parse().map_err(|_| wrong())?;
        let mut stream = Stream::new(workload, Shape { stage, threads: 1, ..shape }, 0);
        for _ in 0..ops.parse::<u64>().map_err(|_| wrong())? {
            let op = stream.next_op();
            let version = match op.kind {
                Kind::Put | Kind::SyncedPut => Some(op.version),
                Kind::Delete => None,
                Kind::Get | Kind::GetMissing | Kind::Scan => continue,
                Kind::ReadModifyWrite => {
                    return Err(format!("history: {workload} does more than put and delete"));
                }
            };
            let known = newest.get_mut(op.number as usize);
            *known.ok_or_else(|| format!("history: {workload} writes other keys"))? = version;
        }
    }
    let mut expected = newest.iter().enumerate().filter_map(|(at, it)| Some((at as u64, (*it)?)));
    let mut seen = 0u64;
    engine.scan(&generator::key(0), u64::MAX >> 1, false, &mut |key, value| {
        let number = generator::number_of(key).ok_or("a key that nobody wrote")?;
        let version = generator::check(number, value.unwrap_or_default(), value_bytes)?;
        if expected.next() != Some((number, version)) {
            return Err(format!("key {number} in version {version} is not what was written last"));
        }
        seen += 1;
        Ok(true)
    })?;
    match expected.next() {
        None => Ok(format!("{{\"verified\": {seen}}}")),
        Some((number, _)) => Err(format!("key {number} is missing behind {seen} others")),
    }
}
