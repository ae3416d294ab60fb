//! The shell's commands about values that expire.

use super::run::Session;
use crate::outcome::Stop;
use crate::output::Output;
use crate::time;
use cleavedb::{Error, Expiry, Result};

impl Session<'_> {
    /// Runs the commands about values that expire; returns false for all others.
    pub(super) fn answer_about_expiry(
        &self,
        verb: &str,
        arguments: &[Vec<u8>],
        out: &mut Output,
    ) -> Result<bool, Stop> {
        let is_there = match (verb, arguments) {
            ("put", [key, value, option, time]) if option == b"--ttl" => {
                self.put_expiring(key, value, parse_time(time)?)?;
                true
            }
            ("ttl", [key]) => match self.keyspace.ttl_with(key, &self.read_options())? {
                Some(ttl) => {
                    out.line(time::ttl(ttl))?;
                    return Ok(true);
                }
                None => false,
            },
            ("expire", [key, time]) => self.expire(key, parse_time(time)?)?,
            ("persist", [key]) => self.expire(key, Expiry::Never)?,
            _ => return Ok(false),
        };
        out.line(if is_there { "OK" } else { "(nil)" })?;
        Ok(true)
    }

    fn put_expiring(&self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
        match &self.transaction {
            Some(open) => open.transaction.put_expiring(&self.keyspace, key, value, expiry),
            None => self.keyspace.put_with(key, value, &self.options.expiry(expiry)),
        }
    }

    /// Sets when a value expires; returns false if there is none.
    fn expire(&self, key: &[u8], expiry: Expiry) -> Result<bool> {
        let Some(open) = &self.transaction else {
            return self.keyspace.expire_with(key, expiry, &self.options);
        };
        let Some(value) = open.transaction.get(&self.keyspace, key)? else { return Ok(false) };
        open.transaction.put_expiring(&self.keyspace, key, &value, expiry)?;
        Ok(true)
    }
}

fn parse_time(word: &[u8]) -> Result<Expiry> {
    let text =
        std::str::from_utf8(word).map_err(|_| Error::invalid_argument("the time must be UTF-8"))?;
    time::expiry(text)
}
