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
        Ok(self.number_if_given(name)?.unwrap_or(other))
    }

    /// A number; None if none is given.
    pub fn number_if_given<N: FromStr>(&self, name: &str) -> Result<Option<N>, String> {
        self.0.contains_key(name).then(|| self.number(name)).transpose()
    }

    /// `on` or `off`; None if neither is given.
    pub fn switch_if_given(&self, name: &str) -> Result<Option<bool>, String> {
        match self.0.get(name).map(String::as_str) {
            None => Ok(None),
            Some("on") => Ok(Some(true)),
            Some("off") => Ok(Some(false)),
            Some(other) => Err(format!("{name}={other} is neither on nor off")),
        }
    }

    /// A number that must be given.
    pub fn number<N: FromStr>(&self, name: &str) -> Result<N, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("{name}={text} is no number of its kind"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_switches_may_be_left_out_but_not_be_wrong() {
        let words = ["ceiling=1.5", "punch=off", "settled=low", "on=1"];
        let given = Arguments::parse(words.into_iter().map(str::to_owned)).ok().unwrap();
        assert_eq!(given.number_if_given("ceiling"), Ok(Some(1.5)));
        assert_eq!(given.number_if_given::<f64>("other"), Ok(None));
        assert!(given.number_if_given::<f64>("settled").is_err());
        assert_eq!(given.number_or("other", 7), Ok(7));
        assert_eq!(given.switch_if_given("punch"), Ok(Some(false)));
        assert_eq!(given.switch_if_given("other"), Ok(None));
        assert!(given.switch_if_given("on").unwrap_err().contains("neither on nor off"));
    }
}
