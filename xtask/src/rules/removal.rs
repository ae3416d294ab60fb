//! Only one place in the engine, and the rooms listed here, may unlink files (I5).

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "removal";

/// The places that remove files, and the reason of each.
const ALLOWED: [(&str, &str); 12] = [
    ("engine/src/version/set.rs", "frees what no reader can reach any more"),
    ("engine/src/version/manifest.rs", "takes back a manifest that nothing names yet"),
    ("engine/src/cache.rs", "removes and lets go of the descriptor, as set.rs says"),
    ("engine/src/recovery/create.rs", "clears what a creation cut short left, under the lock"),
    ("engine/src/recovery/leftovers.rs", "clears what a crash left over, under the lock"),
    ("engine/src/recovery/follow/pinned.rs", "removes second names of its own, under a lock"),
    ("engine/src/repair/aside.rs", "removes names of files that have others in `lost`"),
    ("engine/src/version/owner.rs", "replaces a file that a crash cut short, under the lock"),
    ("engine/src/env/", "implements the removal"),
    ("engine/src/db/ingest/file_writer.rs", "replaces what a writer of sorted files left"),
    ("engine/src/db/backup/catalog.rs", "clears a backup directory of what no point names"),
    ("engine/src/db/destroy.rs", "destroys on the user's word"),
];

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    for file in files.iter().filter(|file| file.path.starts_with("engine/src/")) {
        if ALLOWED.iter().any(|(path, _)| file.path.starts_with(path)) {
            continue;
        }
        let tokens = file.production();
        let words: Vec<&str> = tokens.iter().map(|token| token.text).collect();
        for (at, token) in tokens.iter().enumerate() {
            let is_call = words[at..].starts_with(&["remove", "("]);
            let is_path = words[..at].ends_with(&["Fs", ":", ":"]);
            // `fs.remove(`, `self.fs().remove(`: the word before, past an empty call.
            let receiver = words[..at].split_last().filter(|(dot, _)| **dot == ".");
            let receiver = receiver.map(|(_, rest)| rest.strip_suffix(&["(", ")"]).unwrap_or(rest));
            let receiver = receiver.and_then(|rest| rest.last());
            let is_method = receiver.is_some_and(|word| *word == "fs" || word.ends_with("_fs"));
            if is_call && (is_path || is_method) {
                let owner = ALLOWED[0].0;
                let message = format!("only {owner} removes files (I5); hand it the file's id");
                report.error(RULE, file.path, token.line, message);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    #[test]
    fn removing_a_file_elsewhere_is_an_error() {
        for text in ["self.fs.remove(&p)", "env.fs()\n.remove(p)", "Fs::remove(&*fs, p)"] {
            let text = format!("fn f() {{ {text}; }}");
            let found = errors_of(check, &[("engine/src/gc/punch.rs", &text)]);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(errors_of(check, &[("engine/src/version/set.rs", &text)]), [""; 0]);
        }
    }

    #[test]
    fn removing_from_a_map_is_fine() {
        let text = "fn f() { map.remove(&k); self.files.remove(1); }\n\
                    #[cfg(test)]\nmod tests { fn g() { fs.remove(p); } }";
        assert_eq!(errors_of(check, &[("engine/src/gc/punch.rs", text)]), [""; 0]);
    }
}
