//! What the command takes: words of the form `name=value`, since the program in Go takes the same.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The words by name.
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Splits the words.
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        words
            .map(|word| match word.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
                None => Err(format!("`{word}` is not of the form name=value")),
            })
            .collect::<Result<_, _>>()
            .map(Arguments)
    }

    /// The text of a name that must be given.
    pub fn text(&self, name: &str) -> Result<&str, String> {
        self.0.get(name).map(String::as_str).ok_or_else(|| format!("{name}= is missing"))
    }

    /// A number, or another if none is given.
    pub fn number_or<N: FromStr>(&self, name: &str, other: N) -> Result<N, String> {
        if self.0.contains_key(name) { self.number(name) } else { Ok(other) }
    }

    /// A number that must be given.
    pub fn number<N: FromStr>(&self, name: &str) -> Result<N, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("{name}={text} is no number of its kind"))
    }
}
