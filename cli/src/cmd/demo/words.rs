//! The data set of the demo: WordNet 3.0, embedded in the command, as articles of a dictionary.
//! `cli/data/NOTICE` has its source and licence.
//!
//! WordNet's `data.*` files hold sets of synonyms, its `index.*` files words and their sets
//! (man 5 wndb). An article joins them: all senses of a word, each with its gloss, its synonyms
//! and the words it is related to. Articles are JSON, from 80 bytes to tens of KiB.

use crate::format::json_string;
use ruzstd::decoding::StreamingDecoder;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

const PACKED: &[u8] = include_bytes!("../../../data/wordnet-3.0.zst");

/// Number of words; it identifies the data set.
pub(super) const WORDS: usize = 147_306;

/// The meanings of WordNet's pointers between sets of synonyms.
const RELATIONS: [(&str, &str); 26] = [
    ("!", "antonyms"),
    ("@", "kind_of"),
    ("@i", "instance_of"),
    ("~", "kinds"),
    ("~i", "instances"),
    ("#m", "member_of"),
    ("#s", "substance_of"),
    ("#p", "part_of"),
    ("%m", "members"),
    ("%s", "substances"),
    ("%p", "parts"),
    ("=", "attributes"),
    ("+", "derived"),
    (";c", "topics"),
    ("-c", "topic_terms"),
    (";r", "regions"),
    ("-r", "region_terms"),
    (";u", "usages"),
    ("-u", "usage_terms"),
    ("*", "entails"),
    (">", "causes"),
    ("^", "see_also"),
    ("$", "verb_group"),
    ("&", "similar_to"),
    ("<", "participle_of"),
    ("\\", "pertains_to"),
];

/// A word, and the part of its article that never changes.
pub(super) struct Article {
    pub(super) word: String,
    body: String,
}

impl Article {
    /// Returns the whole article in its `revision`.
    pub(super) fn text(&self, revision: u64) -> String {
        format!("{{\"revision\":{revision},{}", self.body)
    }

    /// Returns the revision of `text` if it is an article of this word, or `None`.
    pub(super) fn revision_of(&self, text: &[u8]) -> Option<u64> {
        let text = text.strip_prefix(b"{\"revision\":")?.strip_suffix(self.body.as_bytes())?;
        std::str::from_utf8(text.strip_suffix(b",")?).ok()?.parse().ok()
    }

    /// Returns the bytes of the word and its article.
    pub(super) fn bytes(&self) -> u64 {
        (self.word.len() + self.text(0).len()) as u64
    }
}

/// Unpacks all articles, in the order of their words.
pub(super) fn articles() -> Vec<Article> {
    let mut text = String::new();
    let mut unpacked = StreamingDecoder::new(PACKED).expect("the data set is part of this program");
    unpacked.read_to_string(&mut text).expect("the data set is part of this program");
    let articles = parse(&text).expect("the data set is as wndb(5) says");
    assert_eq!(articles.len(), WORDS, "the data set is complete");
    articles
}

/// A set of synonyms.
struct Set<'a> {
    words: Vec<&'a str>,
    pointers: Vec<Pointer<'a>>,
    gloss: &'a str,
}

/// A relation from one of a set's words (0: from all) to one of another set's.
struct Pointer<'a> {
    symbol: &'a str,
    to: SetId<'a>,
    from_word: usize,
    to_word: usize,
}

/// The id of a set: the file's letter and the offset in it.
type SetId<'a> = (char, &'a str);
type Sets<'a> = HashMap<SetId<'a>, Set<'a>>;

fn parse(text: &str) -> Option<Vec<Article>> {
    let mut sets = Sets::new();
    let mut senses: BTreeMap<&str, Vec<SetId<'_>>> = BTreeMap::new();
    let (mut kind, mut letter) = ("", ' ');
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            let part;
            (kind, part) = name.split_once('.')?;
            letter = letter_of(part)?;
        } else if line.starts_with("  ") {
            // This is the licence, at the head of each file.
        } else if kind == "data" {
            let (id, set) = parse_set(line, letter)?;
            sets.insert(id, set);
        } else {
            let (word, ids) = parse_index(line)?;
            senses.entry(word).or_default().extend(ids.into_iter().map(|offset| (letter, offset)));
        }
    }
    let articles = senses.iter().map(|(word, ids)| article(word, ids, &sets));
    let mut articles: Vec<Article> = articles.collect::<Option<_>>()?;
    // WordNet sorts "sea_lion" by its underscore, the database by the blank.
    articles.sort_by(|one, other| one.word.cmp(&other.word));
    Some(articles)
}

fn letter_of(part: &str) -> Option<char> {
    ["noun", "verb", "adj", "adv"].contains(&part).then(|| match part {
        "adv" => 'r',
        _ => part.chars().next().unwrap_or(' '),
    })
}

/// Parses `offset file type count (word id)… count (symbol offset type from/to)… | gloss`.
fn parse_set(line: &str, letter: char) -> Option<(SetId<'_>, Set<'_>)> {
    let (fields, gloss) = line.split_once('|')?;
    let mut fields = fields.split_ascii_whitespace();
    let offset = fields.next()?;
    let word_count = usize::from_str_radix(fields.nth(2)?, 16).ok()?;
    let mut words = Vec::with_capacity(word_count);
    for _ in 0..word_count {
        // Adjectives may carry their position, as in "galore(ip)".
        words.push(fields.next()?.split('(').next()?);
        fields.next()?;
    }
    let pointer_count: usize = fields.next()?.parse().ok()?;
    let mut pointers = Vec::with_capacity(pointer_count);
    for _ in 0..pointer_count {
        let (symbol, offset, part, ends) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        // Adjectives of both types are in one file.
        let letter = if part == "s" { 'a' } else { part.chars().next()? };
        let (from, to) = ends.split_at_checked(2)?;
        pointers.push(Pointer {
            symbol,
            to: (letter, offset),
            from_word: usize::from_str_radix(from, 16).ok()?,
            to_word: usize::from_str_radix(to, 16).ok()?,
        });
    }
    Some(((letter, offset), Set { words, pointers, gloss: gloss.trim() }))
}

/// Parses `word type count … count count offset…`, with the senses by frequency.
fn parse_index(line: &str) -> Option<(&str, Vec<&str>)> {
    let mut fields = line.split_ascii_whitespace();
    let word = fields.next()?;
    let count: usize = fields.nth(1)?.parse().ok()?;
    let rest: Vec<&str> = fields.collect();
    Some((word, rest.get(rest.len().checked_sub(count)?..)?.to_vec()))
}

fn article(word: &str, ids: &[SetId<'_>], sets: &Sets<'_>) -> Option<Article> {
    let senses: Option<Vec<String>> = ids.iter().map(|id| sense(word, *id, sets)).collect();
    let shown = word.replace('_', " ");
    let body = format!("\"word\":{},\"senses\":[{}]}}", json_string(&shown), senses?.join(","));
    Some(Article { word: shown, body })
}

fn sense(word: &str, id: SetId<'_>, sets: &Sets<'_>) -> Option<String> {
    let set = sets.get(&id)?;
    let mut related: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pointer in &set.pointers {
        let of_all = pointer.from_word == 0;
        if !of_all && !set.words.get(pointer.from_word - 1)?.eq_ignore_ascii_case(word) {
            continue;
        }
        let name = RELATIONS.iter().find(|(symbol, _)| *symbol == pointer.symbol)?.1;
        let target = sets.get(&pointer.to)?;
        let to_word = target.words.get(pointer.to_word.saturating_sub(1))?;
        related.entry(name).or_default().push(to_word);
    }
    let part = match id.0 {
        'n' => "noun",
        'v' => "verb",
        'a' => "adjective",
        _ => "adverb",
    };
    let mut out = format!("{{\"part\":\"{part}\",\"gloss\":{}", json_string(set.gloss));
    out += &format!(",\"words\":{}", list(&set.words));
    for (name, words) in &related {
        out += &format!(",\"{name}\":{}", list(words));
    }
    out.push('}');
    Some(out)
}

fn list(words: &[&str]) -> String {
    let quoted: Vec<String> =
        words.iter().map(|word| json_string(&word.replace('_', " "))).collect();
    format!("[{}]", quoted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_set_is_complete_and_its_articles_are_json() {
        let articles = articles();
        let lengths: Vec<usize> = articles.iter().map(|article| article.text(0).len()).collect();
        assert!(lengths.iter().filter(|&&length| length >= 1024).count() > 3000);
        let at = articles.partition_point(|article| article.word.as_str() < "wet");
        let json: serde_json::Value = serde_json::from_str(&articles[at].text(7)).unwrap();
        assert_eq!(json["word"], "wet");
        assert_eq!(json["revision"], 7);
        let senses = json["senses"].as_array().unwrap();
        assert!(senses.iter().any(|s| s["part"] == "adjective" && s["antonyms"][0] == "dry"));
        assert!(senses.iter().any(|s| s["part"] == "verb"));
    }

    #[test]
    fn a_revision_is_read_back_from_its_own_article_only() {
        let article = |word: &str| Article { word: word.into(), body: format!("\"{word}\"}}") };
        let text = article("a").text(41);
        assert_eq!(article("a").revision_of(text.as_bytes()), Some(41));
        assert_eq!(article("b").revision_of(text.as_bytes()), None);
        assert_eq!(article("a").revision_of(b"{\"revision\":x,\"a\"}"), None);
        assert_eq!(article("a").revision_of(b"\"a\"}"), None);
    }
}
