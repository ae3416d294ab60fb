//! The files of the repository as the rules see them: paths and text, in memory, so that a test
//! can lay out a small repository of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;

use crate::modules;
use crate::rust_file::RustFile;

/// Folders whose `.rs` files are input of tests, not code.
const DATA_FOLDERS: [&str; 2] = ["testdata", "fixtures"];

/// All files that git tracks or would track.
pub(crate) struct Repo {
    /// Path → text; `None` if the file is not text.
    files: BTreeMap<String, Option<String>>,
    folders: BTreeSet<String>,
}

impl Repo {
    /// Reads the files that git lists below `root`: tracked or new, but not ignored.
    pub(crate) fn load(root: &Path) -> io::Result<Repo> {
        let listing = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root)
            .output()
            .map_err(|error| {
                io::Error::other(format!("git cannot be run ({error}); install it"))
            })?;
        if !listing.status.success() {
            let said = String::from_utf8_lossy(&listing.stderr).trim().to_owned();
            return Err(io::Error::other(format!("git ls-files failed: {said}")));
        }
        let mut files = BTreeMap::new();
        for name in String::from_utf8_lossy(&listing.stdout).split_terminator('\0') {
            let path = root.join(name);
            // A deleted file is listed until the deletion is staged; links are not followed.
            if path.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                files.insert(name.to_owned(), String::from_utf8(std::fs::read(path)?).ok());
            }
        }
        Ok(Repo::new(files))
    }

    /// Creates a repository of these paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Repo {
        let pair = |(path, text): &(&str, &str)| (path.to_string(), Some(text.to_string()));
        Repo::new(files.iter().map(pair).collect())
    }

    fn new(files: BTreeMap<String, Option<String>>) -> Repo {
        let mut folders = BTreeSet::new();
        for path in files.keys() {
            let mut rest = path.as_str();
            while let Some((folder, _)) = rest.rsplit_once('/') {
                folders.insert(folder.to_owned());
                rest = folder;
            }
        }
        Repo { files, folders }
    }

    /// Returns every path, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns path and text of every text file.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Returns path and text of the files with this extension.
    pub(crate) fn texts_with(&self, extension: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let of_kind =
            move |path: &str| path.rsplit_once('.').is_some_and(|(_, found)| found == extension);
        self.texts().filter(move |(path, _)| of_kind(path))
    }

    /// Returns the text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns true if there is a file with this path.
    pub(crate) fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns true if there is a file or folder with this path.
    pub(crate) fn exists(&self, path: &str) -> bool {
        path.is_empty() || self.has_file(path) || self.folders.contains(path)
    }

    /// Returns true if this is the whole project, so that rules may demand parts of it.
    pub(crate) fn engine_is_complete(&self) -> bool {
        self.has_file("engine/src/db/mod.rs")
    }

    /// Returns path and text of every Rust file that is code.
    pub(crate) fn rust_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_data = |path: &str| path.split('/').any(|part| DATA_FOLDERS.contains(&part));
        self.texts_with("rs").filter(move |(path, _)| !is_data(path))
    }

    /// Returns every Rust file, parsed, with the mark whether all of it is test code.
    pub(crate) fn rust_files(&self) -> Vec<RustFile<'_>> {
        let mut files: Vec<_> =
            self.rust_texts().map(|(path, text)| RustFile::new(path, text)).collect();
        let reached = modules::reachable(self, &files);
        for file in &mut files {
            if let Some(is_test) = reached.get(file.path) {
                file.reached(*is_test);
            }
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_as_files_do() {
        let repo = Repo::of(&[("a/b/c.md", "")]);
        assert!(repo.exists("a/b") && repo.exists("a") && repo.exists("a/b/c.md"));
        assert!(!repo.exists("a/c") && !repo.has_file("a/b"));
    }

    #[test]
    fn fixtures_are_no_code() {
        let repo = Repo::of(&[("engine/tests/testdata/x.rs", ""), ("engine/src/lib.rs", "")]);
        let paths: Vec<_> = repo.rust_texts().map(|(path, _)| path).collect();
        assert_eq!(paths, ["engine/src/lib.rs"]);
    }
}
