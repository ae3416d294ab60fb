//! Tests of user comparators.

use crate::common;
use cleavedb::{Comparator, Db, ErrorKind};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// A comparator that orders decimal numbers in text by their value.
struct ByValue(&'static str);

impl Comparator for ByValue {
    fn name(&self) -> &str {
        self.0
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let number = |key: &[u8]| -> i64 {
            std::str::from_utf8(key).ok().and_then(|text| text.parse().ok()).unwrap_or(i64::MIN)
        };
        number(a).cmp(&number(b)).then_with(|| a.cmp(b))
    }
}

fn open(dir: &Path, name: &'static str) -> cleavedb::Result<Db> {
    let builder = Db::builder(dir).options(common::tiny());
    builder.comparator("numbers", Arc::new(ByValue(name))).open()
}

#[test]
fn orders_everything() {
    let dir = common::dir();
    let db = open(dir.path(), "by value").unwrap();
    let numbers = db.open_or_create_keyspace("numbers").unwrap();
    let all: Vec<i64> = (-300..300).collect();
    for part in 0..3 {
        for number in all.iter().filter(|number| number.rem_euclid(3) == part) {
            let bytes = if number % 2 == 0 { 10 } else { 200 };
            let key = number.to_string();
            numbers.put(&key, common::value(&key, 1, bytes)).unwrap();
        }
        if part == 1 {
            db.compact().unwrap();
        }
    }
    let check = |db: &Db| {
        let numbers = db.open_or_create_keyspace("numbers").unwrap();
        let text = |number: &i64| number.to_string().into_bytes();
        assert!(numbers.keys().map(Result::unwrap).eq(all.iter().map(text)));
        assert!(numbers.keys().rev().map(Result::unwrap).eq(all.iter().rev().map(text)));
        assert_eq!(numbers.get("-7").unwrap().unwrap(), common::value("-7", 1, 200));
        assert!(numbers.get("007").unwrap().is_none());
        let mut cursor = numbers.range("-20".."100").into_cursor().unwrap();
        cursor.seek("-1000").unwrap();
        assert_eq!(cursor.key(), b"-20");
        cursor.seek_to_last().unwrap();
        assert_eq!(cursor.key(), b"99");
        cursor.seek_for_prev("50").unwrap();
        assert_eq!(cursor.key(), b"50");
        assert_eq!(cursor.value().unwrap().len(), 10);
        // Other keyspaces are in bytewise order.
        db.default_keyspace().put("9", "").unwrap();
        db.default_keyspace().put("10", "").unwrap();
        assert_eq!(db.default_keyspace().keys().next().unwrap().unwrap(), b"10");
    };
    check(&db);
    numbers.put("007", "bond").unwrap();
    numbers.delete("007").unwrap();
    db.compact().unwrap();
    assert!(db.check().unwrap().is_clean());
    drop((db, numbers));
    check(&open(dir.path(), "by value").unwrap());
}

#[test]
fn another_or_none_is_refused() {
    let dir = common::dir();
    let db = open(dir.path(), "by value").unwrap();
    db.open_or_create_keyspace("numbers").unwrap().put("1", "one").unwrap();
    drop(db);
    let other = open(dir.path(), "by name").err().unwrap();
    let none = Db::builder(dir.path()).open().err().unwrap();
    for error in [other, none] {
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.to_string().contains("\"by value\""), "{error}");
    }
    // The reverse: a keyspace that was created in bytewise order can't be opened in another.
    let dir = common::dir();
    drop(common::open(dir.path()).open_or_create_keyspace("numbers").unwrap());
    let error = open(dir.path(), "by value").err().unwrap();
    assert!(error.to_string().contains("cleavedb.Bytewise"), "{error}");
    common::open(dir.path()).close().unwrap();
}

#[test]
fn prefixes_need_byte_order() {
    let dir = common::dir();
    let db = open(dir.path(), "by value").unwrap();
    let numbers = db.open_or_create_keyspace("numbers").unwrap();
    numbers.put("1", "one").unwrap();
    numbers.put("5", "five").unwrap();
    let error = numbers.prefix("1").into_cursor().unwrap_err();
    assert!(error.to_string().contains("byte order"), "{error}");
    let outcome: Result<Vec<_>, _> = numbers.prefix("1").collect();
    assert!(outcome.unwrap_err().to_string().contains("byte order"));
}

#[test]
fn ranges_end_where_they_say_in_any_order() {
    let dir = common::dir();
    let db = open(dir.path(), "by value").unwrap();
    let numbers = db.open_or_create_keyspace("numbers").unwrap();
    for number in 0..20 {
        numbers.put(number.to_string(), "").unwrap();
    }
    let keys = |found: cleavedb::Keys| {
        found.map(|key| String::from_utf8(key.unwrap()).unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(numbers.range("8".."12").keys()), "8 9 10 11");
    assert_eq!(keys(numbers.range("8"..="12").keys()), "8 9 10 11 12");
    let open = (std::ops::Bound::Excluded("8"), std::ops::Bound::Included("10"));
    assert_eq!(keys(numbers.range(open).keys()), "9 10");
}
