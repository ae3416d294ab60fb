//! Every kind of file that the engine writes (I11) is described for readers of its bytes.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::{RustFile, SourceText};

const RULE: &str = "formats";
const KINDS: &str = "engine/src/base/header.rs";
const DOCUMENT: &str = "docs/formats.md";

pub(crate) fn check(repo: &Repo, files: &[RustFile<'_>], report: &mut Report) {
    let Some(file) = files.iter().find(|file| file.path == KINDS) else { return };
    let document = repo.text(DOCUMENT).unwrap_or_default();
    let tokens = file.production();
    for (variant, line) in variants(&file.syntax) {
        let Some(letters) = letters_of(&tokens, &variant) else {
            let message = format!("`FileKind::{variant}` has no arm with its four letters");
            report.error(RULE, KINDS, line, message);
            continue;
        };
        if !document.split(|c: char| !c.is_alphanumeric()).any(|word| word == letters) {
            let message = format!("file kind {letters} ({variant}) is not in {DOCUMENT}");
            report.error(RULE, KINDS, line, message + "; describe its bytes there");
        }
    }
}

/// Returns the variants of `enum FileKind` and their lines.
fn variants(syntax: &syn::File) -> Vec<(String, usize)> {
    let variants = syntax.items.iter().filter_map(|item| match item {
        syn::Item::Enum(found) if found.ident == "FileKind" => Some(&found.variants),
        _ => None,
    });
    let place = |name: &syn::Ident| (name.to_string(), name.span().start().line);
    variants.flatten().map(|variant| place(&variant.ident)).collect()
}

/// `FileKind::Table => b"TABL"` says that a table's letters are `TABL`.
fn letters_of<'a>(tokens: &[SourceText<'a>], variant: &str) -> Option<&'a str> {
    tokens.windows(4).find_map(|four| match four {
        [name, equals, arrow, text] => {
            let is_arm = [name.text, equals.text, arrow.text] == [variant, "=", ">"];
            let literal = text.text.strip_prefix("b\"")?.strip_suffix('"')?;
            is_arm.then_some(literal)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    const HEADER: &str = "pub enum FileKind {\n /// A.\n Manifest,\n Table,\n}\n\
                          fn f(kind: FileKind) { match kind {\n\
                          FileKind::Manifest => b\"MANI\",\n FileKind::Table => b\"TABL\",\n} }";

    #[test]
    fn an_undocumented_kind_is_an_error() {
        let found = errors_of(check, &[(KINDS, HEADER), (DOCUMENT, "| `MANI` |")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("engine/src/base/header.rs:4: formats: file kind TABL"));
        let documents = "| `MANI` | TABL";
        assert_eq!(errors_of(check, &[(KINDS, HEADER), (DOCUMENT, documents)]), [""; 0]);
    }

    #[test]
    fn a_kind_without_letters_is_an_error() {
        let text = HEADER.replace("FileKind::Table => b\"TABL\",", "");
        assert!(errors_of(check, &[(KINDS, &text), (DOCUMENT, "MANI")])[0].contains("no arm"));
    }
}
