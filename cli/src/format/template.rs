//! A key that is made of several fields of a row: `{country}/{id}`.

use cleavedb::{Error, Result};

/// The text of a template, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyTemplate {
    parts: Vec<TemplatePart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TemplatePart {
    Literal(String),
    Field(String),
}

impl KeyTemplate {
    /// Parses what `--key` was given: text with names of fields in braces, where `{{` and `}}` are
    /// braces. Text without braces is the name of one field.
    pub(crate) fn parse(text: &str) -> Result<KeyTemplate> {
        if !text.contains(['{', '}']) {
            return Ok(KeyTemplate { parts: vec![TemplatePart::Field(text.to_owned())] });
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, after) = (&rest[at..=at], &rest[at + 1..]);
            if let Some(after) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = after;
                continue;
            }
            let field = if brace == "{" { after.split_once('}') } else { None };
            let Some((name, after)) = field.filter(|(name, _)| !name.is_empty()) else {
                return Err(misshapen(text));
            };
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
            }
            parts.push(TemplatePart::Field(name.to_owned()));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal));
        }
        match parts.iter().any(|part| matches!(part, TemplatePart::Field(_))) {
            true => Ok(KeyTemplate { parts }),
            false => Err(misshapen(text)),
        }
    }

    /// Returns the key, with `field` called for each name in turn.
    pub(crate) fn fill(
        &self,
        mut field: impl FnMut(&str, &mut Vec<u8>) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => key.extend_from_slice(text.as_bytes()),
                TemplatePart::Field(name) => field(name, &mut key)?,
            }
        }
        Ok(key)
    }
}

fn misshapen(text: &str) -> Error {
    Error::invalid_argument(format!("{text:?} is no template of a key")).advise(
        "put names of columns or fields in braces, such as --key '{country}/{id}'; \
         {{ and }} are braces",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> String {
        let template = KeyTemplate::parse(template).unwrap();
        let key = template.fill(|name, key| {
            key.extend_from_slice(format!("<{name}>").as_bytes());
            Ok(())
        });
        String::from_utf8(key.unwrap()).unwrap()
    }

    #[test]
    fn names_in_braces_are_fields_and_the_rest_is_text() {
        assert_eq!(filled("id"), "<id>");
        assert_eq!(filled("two words"), "<two words>");
        assert_eq!(filled("{country}/{id}"), "<country>/<id>");
        assert_eq!(filled("{a}{b}"), "<a><b>");
        assert_eq!(filled("city:{ä b}."), "city:<ä b>.");
        assert_eq!(filled("{{{a}}}"), "{<a>}");
    }

    #[test]
    fn templates_that_name_nothing_are_refused() {
        for bad in ["{", "}", "{}", "a}b", "{a", "{a}}", "{{a}}", "x{}y", "{a}{"] {
            let error = KeyTemplate::parse(bad).unwrap_err().to_string();
            assert!(error.contains("is no template of a key"), "{bad}: {error}");
        }
    }
}
