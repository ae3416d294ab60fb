//! What the shell's commands are called, and what they do.

use crate::text;
use cleavedb::{Error, Result};

/// One paragraph for each command: its usage, two blanks or more, what it does. Completion knows
/// commands and their options from here.
pub(super) const HELP: &str = "\
put KEY VALUE        store a value; with --if-absent behind it, only if the key has none; with
                     --ttl TIME behind it, for this time: 500ms, 10s, 5m, 2h, 7d, never
get KEY              print a value, or (nil); with --with-version, VERSION<TAB>VALUE
del KEY              remove a key; with --if VALUE or --if-version N behind it, only if it has that
cas KEY OLD NEW      store NEW if the value is OLD; with --if-version N in place of OLD, if it has
                     that version. Where nothing is stored for such a reason, print (mismatch)
                     and what get --with-version prints
incr KEY [N]         add N, or 1, to the number under the key, in a keyspace made for that
append KEY VALUE     append to the value, likewise
merge KEY OPERAND    merge by the operator of the keyspace, whatever that is
ttl KEY              print how long the value stays, in ms, or never, or (nil)
expire KEY TIME      let the value that is there expire after this time, or print (nil)
persist KEY          have the value that is there stay, or print (nil)
delrange OPTIONS     remove all keys from one key on and before another, or one of the two;
     --from KEY --to KEY, or --prefix KEY, or --all
ingest FILE...       take sorted files into the keyspace, all at once; with --below before
                     them, leave keys as they are that have a value
scan [OPTIONS]       print key<TAB>value lines, then (N pairs)
     --from KEY --to KEY --prefix KEY --limit N --reverse --keys-only
count [PREFIX]       print how many keys there are
changes [NUMBER]     print what was committed behind this number, as far as the log has it: lines
                     NUMBER<TAB>put<TAB>KEYSPACE<TAB>KEY<TAB>VALUE, merge, del, or delrange with
                     the ends [KEY or (KEY and ]KEY or )KEY, - for none, or ingest with
                     the first and the last key in the same way; behind each commit
                     NUMBER<TAB>commit<TAB>N, then (N commits)
begin                begin a transaction: what follows reads at one moment and its own writes
commit               make these writes take effect at once, unless others wrote what was read
rollback             give the transaction up; rollback to NAME takes back what followed NAME
savepoint NAME       mark this point of the transaction
use KEYSPACE         go on in this keyspace; with --create behind it, make it if there is none. With
                     --merge OPERATOR instead, it is made for incr (add), append (append,
                     append:BYTES), or for merge (max, min, union)
keyspaces            list the keyspaces
sync                 make everything written so far survive a power cut
flush                write what is in memory into tables
compact              rewrite the tree without what is superseded
stats                print statistics, as one line of JSON where nobody looks
space                explain what takes space, likewise
help [COMMAND]       print all of this, or what is said of one command
quit                 leave; so does exit, and Ctrl-D";

/// What is true of all commands.
const NOTE: &str =
    "A word with blanks goes in double quotes; escapes are \\t \\n \\r \\0 \\\\ \\\" \\xNN.";

/// Returns the help of all commands, or of the one called `verb`.
pub(super) fn help(verb: Option<&[u8]>) -> Result<String> {
    let Some(verb) = verb else { return Ok(format!("{HELP}\n{NOTE}")) };
    let wanted = String::from_utf8_lossy(verb).to_ascii_lowercase();
    let found = paragraphs().filter(|(name, _)| *name == wanted);
    let found: Vec<String> = found.map(|(_, lines)| lines.join("\n")).collect();
    if found.is_empty() { Err(unknown(&wanted)) } else { Ok(found.join("\n")) }
}

/// Returns the names of all commands.
pub(super) fn verbs() -> impl Iterator<Item = &'static str> {
    paragraphs().map(|(name, _)| name)
}

/// Returns the options that the help of `verb` names.
pub(super) fn options(verb: &str) -> Vec<&'static str> {
    let lines = paragraphs().filter(|(name, _)| *name == verb).flat_map(|(_, lines)| lines);
    let words = lines.flat_map(|line| line.split([' ', ',', ';', '(', ')']));
    let mut options: Vec<_> = words.filter(|word| word.starts_with("--")).collect();
    options.sort_unstable();
    options.dedup();
    options
}

/// Returns each command's name with its lines.
fn paragraphs() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    let mut lines = HELP.lines().peekable();
    std::iter::from_fn(move || {
        let first = lines.next()?;
        let mut paragraph = vec![first];
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            paragraph.push(line);
        }
        Some((first.split(' ').next().unwrap_or_default(), paragraph))
    })
}

/// Returns the error for a command that is not known, or was given wrong arguments.
pub(super) fn misunderstood(verb: &str) -> Error {
    let Some((_, lines)) = paragraphs().find(|(name, _)| *name == verb) else {
        return unknown(verb);
    };
    let usage = lines.first().and_then(|line| line.split("  ").next()).unwrap_or_default();
    Error::invalid_argument(format!("the arguments of {verb} are wrong"))
        .advise(format!("write {usage}; a word with blanks goes in double quotes"))
}

fn unknown(verb: &str) -> Error {
    let verb = text::escape(verb.as_bytes());
    Error::invalid_argument(format!("there is no command {verb:?}")).advise("`help` lists them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_paragraph() {
        let put = help(Some(b"PUT")).unwrap();
        assert!(put.starts_with("put KEY VALUE ") && put.contains("--ttl"), "{put}");
        assert!(!put.contains("get KEY"), "{put}");
        let all = help(None).unwrap();
        assert!(all.contains(&put) && all.ends_with(NOTE));
        for verb in verbs() {
            assert!(help(Some(verb.as_bytes())).unwrap().starts_with(verb));
            assert!(!verb.is_empty() && verb.bytes().all(|b| b.is_ascii_lowercase()), "{verb}");
        }
        let error = help(Some(b"putt")).unwrap_err().to_string();
        assert!(error.contains("there is no command \"putt\""), "{error}");
    }

    #[test]
    fn options_are_those_of_the_help() {
        assert_eq!(options("put"), ["--if-absent", "--ttl"]);
        let scan = ["--from", "--keys-only", "--limit", "--prefix", "--reverse", "--to"];
        assert_eq!(options("scan"), scan);
        assert_eq!(options("sync"), [""; 0]);
    }
}
