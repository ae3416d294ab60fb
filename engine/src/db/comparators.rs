//! The orders of keys that the user knows: recorded by name, refused if another one is given.

use crate::base::error::{Error, Result};
use crate::base::key::{Comparator, KeyOrder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The orders of keys that the user knows, by keyspace and by name.
#[derive(Clone, Default)]
pub(crate) struct Comparators {
    by_keyspace: BTreeMap<String, Arc<dyn Comparator>>,
}

impl Comparators {
    /// The keys of a keyspace are ordered by `comparator`.
    pub(crate) fn set(&mut self, keyspace: &str, comparator: Arc<dyn Comparator>) {
        self.by_keyspace.insert(keyspace.to_owned(), comparator);
    }

    /// The order of a keyspace that is being created.
    pub(crate) fn order_for_new(&self, keyspace: &str) -> KeyOrder {
        self.by_keyspace.get(keyspace).cloned().map_or(KeyOrder::Bytewise, KeyOrder::Custom)
    }

    /// The order with this recorded name.
    pub(crate) fn named(&self, name: &str) -> Result<KeyOrder> {
        if name == KeyOrder::BYTEWISE_NAME {
            return Ok(KeyOrder::Bytewise);
        }
        let found = self.by_keyspace.values().find(|comparator| comparator.name() == name);
        found.cloned().map(KeyOrder::Custom).ok_or_else(|| {
            Error::invalid_option(format!("a keyspace is ordered by {name:?}, which was not given"))
                .advise("pass that comparator to the builder")
        })
    }

    /// Refuses a comparator for a keyspace that is ordered by another one.
    pub(crate) fn check(&self, keyspace: &str, recorded: &str) -> Result<()> {
        let given = self.order_for_new(keyspace);
        let is_given = self.by_keyspace.contains_key(keyspace);
        if is_given && given.name() != recorded {
            return Err(Error::invalid_option(format!(
                "keyspace {keyspace:?} is ordered by {recorded:?}, not by {:?}",
                given.name()
            ))
            .advise("open it with the comparator it was created with"));
        }
        Ok(())
    }
}
