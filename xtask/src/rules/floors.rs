//! The engine's floors: a file imports only from lower floors or from its own room; rooms on one
//! floor do not know each other. Test code may look anywhere.

use std::collections::BTreeMap;

use crate::paths::{NamedPath, named_paths};
use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

const RULE: &str = "floors";
const ENGINE: &str = "engine/src/";

/// Room and floor, from the ground up.
const FLOORS: [(&str, u8); 22] = [
    ("base", 0),
    ("stats", 0),
    ("events", 0),
    ("throttle", 0),
    ("env", 1),
    ("memtable", 2),
    ("cache", 2),
    ("hot", 2),
    ("segment", 3),
    ("relocation", 3),
    ("table", 3),
    ("version", 4),
    ("read", 5),
    ("commit", 6),
    ("compaction", 7),
    ("gc", 7),
    ("recovery", 7),
    ("background", 8),
    ("repair", 8),
    ("space", 8),
    ("db", 9),
    ("fuzzing", 10),
];

/// Exceptions: rooms that may import from a room of their own floor.
const NEIGHBOURS: [(&str, &str); 4] =
    [("stats", "base"), ("events", "base"), ("events", "stats"), ("throttle", "stats")];

pub(crate) fn check(_: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    let macros = exported_macros(files);
    for file in files {
        let Some(module) = file.path.strip_prefix(ENGINE).map(module_path) else { continue };
        // lib.rs is the roof: it names everything.
        let Some(room) = module.first() else { continue };
        let Some(floor) = floor_of(room) else {
            let message = format!("room `{room}` has no floor; add it to FLOORS in xtask, or move");
            report.error(RULE, file.path, 1, message + " the file into a room that has one");
            continue;
        };
        for path in named_paths(&file.syntax) {
            let is_production = !file.is_test_line(path.line);
            let Some(target) = resolve(&module, &path).filter(|_| is_production) else { continue };
            let name = target.first().map(String::as_str);
            let target = name.map(|name| macros.get(name).map_or(name, String::as_str));
            if let Some(message) = judge(room, floor, target) {
                report.error(RULE, file.path, path.line, message);
            }
        }
    }
}

fn floor_of(room: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == room).map(|(_, floor)| *floor)
}

/// Returns the problem of `room` importing from `target`, if any; the target `None` is the crate's
/// root.
fn judge(room: &str, floor: u8, target: Option<&str>) -> Option<String> {
    let Some((target, above)) = target.and_then(|target| Some((target, floor_of(target)?))) else {
        let what = target.unwrap_or("everything");
        return Some(format!(
            "`{what}` is taken through the roof (lib.rs); name the room it is in"
        ));
    };
    if target == room || above < floor || NEIGHBOURS.contains(&(room, target)) {
        return None;
    }
    if above == floor {
        return Some(format!(
            "`{room}` and `{target}` are neighbours on floor {floor} and must not know each \
             other; move what both need to a lower floor, or pass it in from above"
        ));
    }
    Some(format!(
        "`{room}` (floor {floor}) reaches up to `{target}` (floor {above}); move what it needs \
         down, or define a trait here that `{target}` implements"
    ))
}

/// Returns the module path of a file: `read/get.rs` → `["read", "get"]`; `lib.rs` → `[]`.
fn module_path(local: &str) -> Vec<String> {
    let mut parts: Vec<String> =
        local.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Returns the path from the crate's root, or `None` if it leads out of the crate.
fn resolve(module: &[String], path: &NamedPath) -> Option<Vec<String>> {
    let mut segments = path.segments.iter().peekable();
    let first = segments.next()?;
    let mut at: Vec<String> = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => {
            // Inline modules only lie deeper inside the file's own module.
            let mut up = 1;
            while segments.next_if(|next| *next == "super").is_some() {
                up += 1;
            }
            let up = up - path.inline_depth.min(up);
            module.get(..module.len().checked_sub(up)?)?.to_vec()
        }
        _ => return None,
    };
    at.extend(segments.cloned());
    if at.is_empty() && !path.is_glob {
        return None; // `pub(crate)`, `pub(super)`
    }
    Some(at)
}

/// Returns the room of each macro with `#[macro_export]`, which is named at the root wherever it
/// is.
fn exported_macros(files: &[RustFile<'_>]) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for file in files {
        let Some(module) = file.path.strip_prefix(ENGINE).map(module_path) else { continue };
        let Some(room) = module.into_iter().next() else { continue };
        for item in &file.syntax.items {
            let syn::Item::Macro(syn::ItemMacro { attrs, ident: Some(name), .. }) = item else {
                continue;
            };
            if attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
                out.insert(name.to_string(), room.clone());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(path: &str, text: &str) -> Vec<String> {
        let lib = "#[cfg(test)] mod tests;";
        let macros = "#[macro_export]\nmacro_rules! sure { () => {} }";
        errors_of(
            check,
            &[
                ("engine/Cargo.toml", ""),
                ("engine/src/lib.rs", lib),
                ("engine/src/base/check.rs", macros),
                (path, text),
            ],
        )
    }

    #[test]
    fn reaching_up_is_an_error() {
        let found = errors("engine/src/table/writer.rs", "use crate::base::x;\nuse crate::db::Db;");
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("engine/src/table/writer.rs:2: floors: `table` (floor 3)"));
        assert_eq!(errors("engine/src/env/os.rs", "fn f() { crate::read::get() }").len(), 1);
        assert_eq!(
            errors("engine/src/env/sim/disk.rs", "use super::super::super::gc::x;").len(),
            1
        );
    }

    #[test]
    fn neighbours_do_not_know_each_other() {
        let found = errors("engine/src/table/mod.rs", "use crate::{base::a, segment::b};");
        assert!(found[0].contains("neighbours"), "{found:?}");
        assert_eq!(errors("engine/src/stats/mod.rs", "use crate::base::a;"), [""; 0]);
        assert_eq!(errors("engine/src/base/key.rs", "use crate::stats::a;").len(), 1);
    }

    #[test]
    fn the_own_room_and_lower_ones_are_fine() {
        let text = "use super::format::A; use self::b::C; use super::super::base::D;\n\
                    use crate::env::fs::File; use crate::table::iter; pub(crate) fn f() {}\n\
                    mod m { use super::g; use super::super::format; }\n\
                    fn h() { crate::sure!(); std::mem::drop(1) }";
        assert_eq!(errors("engine/src/table/reader.rs", text), [""; 0]);
    }

    #[test]
    fn the_roof_is_no_door() {
        assert!(errors("engine/src/read/get.rs", "use crate::Error;")[0].contains("roof"));
        assert!(errors("engine/src/memtable.rs", "use super::*;")[0].contains("roof"));
    }

    #[test]
    fn test_code_may_look_anywhere() {
        let text = "#[cfg(test)]\nmod tests {\n use crate::db::Db;\n}";
        assert_eq!(errors("engine/src/base/key.rs", text), [""; 0]);
    }

    #[test]
    fn a_new_room_needs_a_floor() {
        assert!(errors("engine/src/attic/mod.rs", "")[0].contains("no floor"));
    }
}
