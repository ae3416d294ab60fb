//! The shell's commands that merge operands with values.

use super::run::Session;
use cleavedb::{Error, Result, merge_operators};

impl Session<'_> {
    /// Runs the commands that merge; returns false for all others.
    pub(super) fn answer_about_merging(&self, verb: &str, arguments: &[Vec<u8>]) -> Result<bool> {
        match (verb, arguments) {
            ("incr", [key]) => self.merge_by(merge_operators::ADD, "add", key, b"1")?,
            ("incr", [key, number]) => self.merge_by(merge_operators::ADD, "add", key, number)?,
            ("append", [key, bytes]) => {
                self.merge_by(merge_operators::APPEND, "append", key, bytes)?;
            }
            ("merge", [key, operand]) => self.merge(key, operand)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Merges an operand in a keyspace whose operator must be `operator`, which `short` stands for.
    fn merge_by(&self, operator: &str, short: &str, key: &[u8], operand: &[u8]) -> Result<()> {
        let own = self.keyspace.options().merge_operator;
        let is_it = own.as_deref().is_some_and(|own| own.split(':').next() == Some(operator));
        if !is_it {
            let name = self.keyspace.name();
            return Err(Error::wrong_state(format!(
                "keyspace {name:?} does not merge by {operator}"
            ))
            .advise(format!("use NAME --merge {short} creates one that does")));
        }
        self.merge(key, operand)
    }

    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        match &self.transaction {
            Some(open) => open.transaction.merge(&self.keyspace, key, operand),
            None => self.keyspace.merge_with(key, operand, &self.options),
        }
    }
}
