//! Documents: one title each, and no relative link that leads nowhere.

use crate::repo::Repo;
use crate::report::Report;
use crate::rust_file::RustFile;

pub(crate) fn check(repo: &Repo, _: &[RustFile<'_>], report: &mut Report) {
    for (path, text) in repo.texts_with("md") {
        let mut titles = Vec::new();
        for (line, text) in prose(text) {
            if text.starts_with("# ") {
                titles.push(line);
            }
            for link in links(text) {
                if leads_nowhere(repo, path, link) {
                    let message = format!("`{link}` leads nowhere; write the path from this file");
                    report.error("links", path, line, message);
                }
            }
        }
        if titles.len() != 1 {
            let message = format!("{} titles; a document has one line `# …`", titles.len());
            report.error("title", path, titles.get(1).copied().unwrap_or(1), message);
        }
    }
}

/// Returns the numbered lines outside of code fences, with code spans blanked.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence = None;
    let mut out = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, None) => out.push((at + 1, line)),
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
    }
    out
}

/// Returns the targets of `[text](target)` and `[name]: target`.
fn links(line: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find("](") {
        // Inside a code span it is only an example.
        let before = &line[..line.len() - rest.len() + at];
        rest = &rest[at + 2..];
        let end = rest.find(')').unwrap_or(rest.len());
        if before.matches('`').count().is_multiple_of(2) || before.ends_with('`') {
            out.extend(rest[..end].split_whitespace().next());
        }
    }
    if let Some((name, target)) = line.split_once("]: ")
        && name.starts_with('[')
    {
        out.extend(target.split_whitespace().next());
    }
    out
}

fn leads_nowhere(repo: &Repo, from: &str, link: &str) -> bool {
    let target = link.trim_matches(['<', '>']).split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return false;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut at: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." if at.pop().is_none() => return true,
            ".." => {}
            part => at.push(part),
        }
    }
    !repo.exists(&at.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::errors_of;

    fn errors(text: &str) -> Vec<String> {
        errors_of(check, &[("docs/a.md", text), ("docs/b.md", "# B\n"), ("c/d.rs", "")])
    }

    #[test]
    fn a_document_has_one_title() {
        assert_eq!(errors("# A\n## B\n```\n# not a title\n```\n"), [""; 0]);
        assert!(errors("## A\n")[0].contains("0 titles"));
        assert!(errors("# A\n\n# B\n")[0].starts_with("docs/a.md:3: title: 2 titles"));
    }

    #[test]
    fn links_lead_somewhere() {
        let fine = "# A\n[b](b.md) [b](./b.md#part) [c](../c/) [d](../c/d.rs) [e](https://e.org)\n\
                    [f](#f) `[g](gone.md)` [h](mailto:h@i.org)\n[j]: ../c/d.rs\n";
        assert_eq!(errors(fine), [""; 0]);
        for text in ["[x](gone.md)", "[x](../docs/b)", "[x](../../y)", "[x]: gone.md", "[`x`](y)"] {
            assert_eq!(errors(&format!("# A\n{text}\n")).len(), 1, "{text}");
        }
    }
}
