//! The user's comparators. A keyspace's comparator is recorded by name, and another one is refused.

use crate::base::error::{Error, Result};
use crate::base::key::{Comparator, KeyOrder};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user's comparators, by keyspace and by name.
#[derive(Clone, Default)]
pub(crate) struct Comparators {
    by_keyspace: BTreeMap<String, Arc<dyn Comparator>>,
}

impl Comparators {
    /// Orders the keys of a keyspace by `comparator`.
    pub(crate) fn set(&mut self, keyspace: &str, comparator: Arc<dyn Comparator>) {
        self.by_keyspace.insert(keyspace.to_owned(), comparator);
    }

    /// Returns the order for a keyspace that is being created.
    pub(crate) fn order_for_new(&self, keyspace: &str) -> KeyOrder {
        self.by_keyspace.get(keyspace).cloned().map_or(KeyOrder::Bytewise, KeyOrder::Custom)
    }

    /// Returns the order with this recorded name; fails if the user gave none.
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
