//! The lines that a person types: editing, completion by Tab, and a history that outlives the
//! session.

use super::complete::complete;
use crate::open;
use crate::output::note;
use cleavedb::{Db, Error, Keyspace, Result};
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Lines that the history keeps.
const HISTORY_LINES: usize = 1000;

/// The editor of a terminal.
pub(super) struct LineEditor<'a> {
    editor: Editor<Completion<'a>, FileHistory>,
    /// The file of the history, unless it must not or cannot be kept.
    history: Option<PathBuf>,
}

/// What completion reads from.
struct Completion<'a> {
    db: &'a Db,
    keyspace: Keyspace,
}

impl<'a> LineEditor<'a> {
    pub(super) fn new(db: &'a Db, keyspace: &Keyspace) -> Result<Self> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_max_history_size(HISTORY_LINES).map_err(failed)?;
        editor.set_helper(Some(Completion { db, keyspace: keyspace.clone() }));
        // What is typed has keys and values: those of an encrypted database are not written down.
        let history = if open::keys().is_some() { None } else { history_file() };
        if let Some(path) = &history {
            match editor.load_history(path) {
                Err(ReadlineError::Io(error)) if error.kind() != io::ErrorKind::NotFound => {
                    note!("the history cannot be read: {}: {error}", path.display());
                }
                _ => {}
            }
        }
        Ok(LineEditor { editor, history })
    }

    /// Returns the next line; `None` at the end of the input.
    pub(super) fn read(&mut self, prompt: &str, keyspace: &Keyspace) -> Result<Option<String>> {
        if let Some(helper) = self.editor.helper_mut() {
            helper.keyspace = keyspace.clone();
        }
        match self.editor.readline(prompt) {
            Ok(line) => {
                self.editor.add_history_entry(line.trim_end()).map_err(failed)?;
                Ok(Some(line))
            }
            // Ctrl-C gives the line up, not the session.
            Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Keeps the history. That this fails is told, and is no reason to fail.
    pub(super) fn finish(mut self) {
        let Some(path) = self.history.take() else { return };
        let created = path.parent().map_or(Ok(()), create_private);
        let kept = created.map_err(ReadlineError::from);
        if let Err(error) = kept.and_then(|()| self.editor.append_history(&path)) {
            note!("the history is not kept: {}: {error}", path.display());
        }
    }
}

fn create_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Returns the file of the history: the state of a program, by the XDG base directories.
fn history_file() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let state = named("XDG_STATE_HOME").filter(|dir| dir.is_absolute());
    let state = state.or_else(|| Some(named("HOME")?.join(".local/state")));
    Some(state?.join("cleave/shell_history"))
}

fn failed(error: ReadlineError) -> Error {
    match error {
        ReadlineError::Io(error) => Error::io("read a command", Path::new("the terminal"), error),
        other => Error::io("read a command", Path::new("the terminal"), io::Error::other(other)),
    }
}

impl Completer for Completion<'_> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let (start, mut words) = complete(&line[..pos], self.db, &self.keyspace);
        if let [only] = words.as_mut_slice()
            && !only.trim_end_matches('"').ends_with('/')
        {
            // The word is whole: what comes next is another one.
            only.push(' ');
        }
        Ok((start, words))
    }
}

impl Hinter for Completion<'_> {
    type Hint = String;
}

impl Highlighter for Completion<'_> {}
impl Validator for Completion<'_> {}
impl Helper for Completion<'_> {}
