//! Changes of a deadline alone: the value is put again with another one, unless somebody else
//! writes the key meanwhile.

use crate::base::error::Result;
use crate::db::expiry::Expiry;
use crate::db::keyspace::Keyspace;
use crate::db::options::WriteOptions;

impl Keyspace {
    /// Sets when the present value of a key expires. Returns false, and writes nothing, if the key
    /// has no value. A value whose time has passed already is absent from then on.
    ///
    /// A write by somebody else is never undone: if one comes in between, it is the new value that
    /// gets the deadline.
    ///
    /// Reads the value and puts it again, so it costs a [`Keyspace::get`] and a [`Keyspace::put`],
    /// again if somebody else wrote the key meanwhile, and fails as these do.
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("expire"))?.default_keyspace();
    /// use cleavedb::Ttl;
    /// use std::time::Duration;
    /// sessions.put("s1", "Ada")?;
    /// assert!(sessions.expire("s1", Duration::from_secs(60))?);
    /// assert!(matches!(sessions.ttl("s1")?, Some(Ttl::Left(_))));
    /// assert_eq!(sessions.get("s1")?.unwrap(), "Ada");
    /// assert!(!sessions.expire("s2", Duration::from_secs(60))?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn expire(&self, key: impl AsRef<[u8]>, expiry: impl Into<Expiry>) -> Result<bool> {
        self.expire_with(key, expiry, &WriteOptions::default())
    }

    /// Sets a deadline as [`Keyspace::expire`] does, with a durability of its own. Fails if the
    /// options have an expiry, too.
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("expire-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// use std::time::Duration;
    /// sessions.put("s1", "Ada")?;
    /// let synced = WriteOptions::new().durability(Durability::Sync);
    /// assert!(sessions.expire_with("s1", Duration::ZERO, &synced)?);
    /// assert!(sessions.get("s1")?.is_none());
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn expire_with(
        &self,
        key: impl AsRef<[u8]>,
        expiry: impl Into<Expiry>,
        options: &WriteOptions,
    ) -> Result<bool> {
        self.put_again(key.as_ref(), expiry.into(), options, || ())
    }

    /// Takes the deadline of the present value of a key away, so that it stays, whatever the
    /// default of the keyspace is: [`Keyspace::expire`] with [`Expiry::Never`]. Returns false, and
    /// writes nothing, if the key has no value.
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("persist"))?.default_keyspace();
    /// use cleavedb::Ttl;
    /// use std::time::Duration;
    /// sessions.put_expiring("s1", "Ada", Duration::from_secs(3600))?;
    /// assert!(sessions.persist("s1")?);
    /// assert_eq!(sessions.ttl("s1")?, Some(Ttl::Never));
    /// assert!(!sessions.persist("s2")?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.persist_with(key, &WriteOptions::default())
    }

    /// Takes a deadline away as [`Keyspace::persist`] does, with a durability of its own. Fails if
    /// the options have an expiry.
    ///
    /// ```
    /// # let sessions = cleavedb::open(cleavedb::doc_dir("persist-with"))?.default_keyspace();
    /// use cleavedb::{Durability, WriteOptions};
    /// use std::time::Duration;
    /// sessions.put_expiring("s1", "Ada", Duration::from_secs(3600))?;
    /// let synced = WriteOptions::new().durability(Durability::Sync);
    /// assert!(sessions.persist_with("s1", &synced)?);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn persist_with(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<bool> {
        self.expire_with(key, Expiry::Never, options)
    }

    /// Puts the value of a key again with another deadline; returns false if it has none. `between`
    /// runs whenever the key was read, for tests.
    fn put_again(
        &self,
        key: &[u8],
        expiry: Expiry,
        options: &WriteOptions,
        mut between: impl FnMut(),
    ) -> Result<bool> {
        options.check_no_expiry()?;
        let put = self.update_with(key, &options.expiry(expiry), |value| {
            between();
            value.map(<[u8]>::to_vec)
        })?;
        Ok(put.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::expiry::Ttl;
    use crate::doc_dir;
    use std::time::Duration;

    /// `persist` made a value stay that had expired while it was read, and was gone for others.
    #[test]
    fn what_has_expired_gets_no_other_deadline() {
        let (env, simulation) = crate::env::Env::simulated(3);
        simulation.clone().run(|| {
            let db = crate::Db::builder(std::path::Path::new("/db")).env(env).open().unwrap();
            let keys = db.default_keyspace();
            let life = Duration::from_secs(10);
            for expiry in [Expiry::Never, Expiry::After(life)] {
                keys.put_expiring("key", "1", life).unwrap();
                let gone = || simulation.advance(life);
                assert!(!keys.put_again(b"key", expiry, &WriteOptions::new(), gone).unwrap());
                assert!(keys.get("key").unwrap().is_none());
            }
        });
    }

    /// Somebody else's write between the read and the put was undone, or what was deleted came
    /// back.
    #[test]
    fn a_write_in_between_stays() {
        let db = crate::open(doc_dir("expire-in-between")).unwrap();
        let keyspace = db.default_keyspace();
        let expire = |between: &dyn Fn()| {
            let mut first = true;
            let between = || {
                if std::mem::take(&mut first) {
                    between();
                }
            };
            let hour = Expiry::After(Duration::from_secs(3600));
            keyspace.put_again(b"key", hour, &WriteOptions::new(), between).unwrap()
        };
        keyspace.put("key", "1").unwrap();
        assert!(expire(&|| keyspace.put("key", "2").unwrap()));
        assert_eq!(keyspace.get("key").unwrap().unwrap(), "2");
        assert!(matches!(keyspace.ttl("key").unwrap(), Some(Ttl::Left(_))));
        assert!(!expire(&|| keyspace.delete("key").unwrap()));
        assert!(keyspace.get("key").unwrap().is_none());
        assert!(!expire(&|| keyspace.put("key", "3").unwrap()), "there was none to be read");
        assert_eq!(keyspace.get("key").unwrap().unwrap(), "3");
    }
}
