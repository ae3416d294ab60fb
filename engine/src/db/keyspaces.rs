//! The keyspaces of a database: opening, creating, changing and dropping them.

use crate::base::error::{Error, Result};
use crate::base::pointer::KeyspaceId;
use crate::db::keyspace::Keyspace;
use crate::db::options::check_level0;
use crate::db::{Core, Db};
use crate::version::Version;
use crate::version::edit::{Change, Edit};
use crate::version::settings::{DEFAULT_KEYSPACE, KeyspaceOptions};
use crate::version::view::KeyspaceState;
use std::collections::BTreeMap;
use std::sync::Arc;

fn not_found(keyspace: &str) -> Error {
    Error::not_found(format!("there is no keyspace {keyspace:?}"))
        .advise("create it, or choose one of those that `keyspaces` lists")
}

impl Core {
    fn add_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
        let order = self.comparators.order_for_new(name);
        let merging = self.merge_operators.of_new(name, &options, &self.health)?;
        let mut id = KeyspaceId(0);
        let add = |_: &Version| {
            // I6: the id was never used before, so what the log still holds of a keyspace dropped
            // earlier does not come back in this one.
            id = KeyspaceId(self.set.allocate()?);
            Ok(Edit::new(vec![Change::AddKeyspace {
                id,
                name: name.to_owned(),
                order: order.name().to_owned(),
                settings: options.to_text(),
                flushed: 0,
            }]))
        };
        // The edit is durable before the keyspace's first entry can be, so replay finds the
        // keyspace of each record.
        let version = self.set.apply(add, &[], None)?;
        let state = KeyspaceState::new(id, name.to_owned(), order, options, merging, version);
        let state = Arc::new(state);
        self.set.register_new(state.clone());
        self.change_keyspaces(|keyspaces| {
            let before = keyspaces.insert(name.to_owned(), state.clone());
            assert!(before.is_none(), "`ddl` is held, so nobody else created {name:?}");
        });
        Ok(state)
    }

    /// Changes the table of keyspaces. Requires: `ddl` is held.
    fn change_keyspaces(&self, change: impl FnOnce(&mut BTreeMap<String, Arc<KeyspaceState>>)) {
        let mut keyspaces = (**self.keyspaces.load()).clone();
        change(&mut keyspaces);
        self.keyspaces.store(Arc::new(keyspaces));
    }

    /// Creates a keyspace. Requires: `ddl` is held, and no keyspace has this name.
    fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceState>> {
        self.check_writable()?;
        options.validate()?;
        check_level0(&options, self.committer.stall_controller().level0_stop())?;
        if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
            return Err(Error::invalid_argument(format!(
                "{name:?} can't be the name of a keyspace"
            ))
            .advise("use 1 to 255 bytes without control characters"));
        }
        self.add_keyspace(name, options)
    }

    /// Stores new settings of a keyspace durably and applies them from now on.
    pub(crate) fn set_options(
        &self,
        state: &KeyspaceState,
        options: KeyspaceOptions,
    ) -> Result<()> {
        self.check_writable()?;
        options.validate()?;
        check_level0(&options, self.committer.stall_controller().level0_stop())?;
        let _ddl = self.ddl.lock();
        state.check()?;
        if **state.options() == options {
            return Ok(());
        }
        check_operator(state, &options)?;
        // A crash leaves the old settings or the new ones. Both are valid: they only say how new
        // files are written.
        let set = Change::SetKeyspace { id: state.id, settings: options.to_text() };
        self.set.apply(|_| Ok(Edit::new(vec![set])), &[], None)?;
        state.set_options(options);
        Ok(())
    }
}

/// Returns an error if the options name another merge operator than the keyspace has.
fn check_operator(state: &KeyspaceState, options: &KeyspaceOptions) -> Result<()> {
    let operator = state.options().merge_operator.clone();
    if operator == options.merge_operator {
        return Ok(());
    }
    let shown = |operator: &Option<String>| operator.clone().unwrap_or("none".to_owned());
    let (is, given) = (shown(&operator), shown(&options.merge_operator));
    let what = format!("merge_operator of {:?} is {is}, it can't become {given}", state.name);
    Err(Error::invalid_option(what)
        .advise("it is fixed when the keyspace is created: copy to another keyspace"))
}

impl Db {
    /// Opens the keyspace of this name, which must exist. Costs no I/O.
    ///
    /// Fails with [`ErrorKind::NotFound`] if there is none; see [`Db::create_keyspace`] and
    /// [`Db::open_or_create_keyspace`].
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("open-keyspace");
    /// use cleavedb::ErrorKind;
    /// let db = cleavedb::open(&dir)?;
    /// assert_eq!(db.keyspace("users").unwrap_err().kind(), ErrorKind::NotFound);
    /// db.create_keyspace("users")?;
    /// db.keyspace("users")?.put("ada", "1815")?;
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.core.check_open()?;
        let state = self.core.keyspaces.load().get(name).cloned();
        state.map(|state| self.handle(state)).ok_or_else(|| not_found(name))
    }

    /// Creates a keyspace with the settings of [`Options::keyspace`]. Costs one durable edit of the
    /// manifest.
    ///
    /// Fails with [`ErrorKind::AlreadyExists`] if there is one of this name, and with
    /// [`ErrorKind::InvalidArgument`] unless the name has 1 to 255 bytes without control
    /// characters.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("create-keyspace-default"))?;
    /// let users = db.create_keyspace("users")?;
    /// users.put("ada", "1815")?;
    /// assert_eq!(db.keyspaces(), ["default", "users"]);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::AlreadyExists`]: crate::ErrorKind::AlreadyExists
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`Options::keyspace`]: crate::Options::keyspace
    pub fn create_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.create_keyspace_with(name, self.core.options.keyspace.clone())
    }

    /// Creates a keyspace as [`Db::create_keyspace`] does, with settings of its own. They are
    /// stored with the keyspace and stay until [`Keyspace::set_options`] changes them, whatever
    /// options the database is opened with.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("create-keyspace");
    /// use cleavedb::{ErrorKind, KeyspaceOptions, Separation};
    /// let db = cleavedb::open(&dir)?;
    /// let inline = KeyspaceOptions { separation: Separation::Off, ..Default::default() };
    /// db.create_keyspace_with("index", inline.clone())?;
    /// let again = db.create_keyspace_with("index", inline).unwrap_err();
    /// assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn create_keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.core.check_open()?;
        let _ddl = self.core.ddl.lock();
        if self.core.keyspaces.load().contains_key(name) {
            self.core.check_open()?;
            return Err(Error::already_exists(format!("there is a keyspace {name:?} already"))
                .advise("open it with `keyspace`, or choose another name"));
        }
        self.core.create_keyspace(name, options).map(|state| self.handle(state))
    }

    /// Opens the keyspace of this name, or creates it with the settings of [`Options::keyspace`] if
    /// there is none. The settings of an existing keyspace stay as they are.
    ///
    /// ```
    /// # let dir = cleavedb::doc_dir("open-or-create-keyspace");
    /// let db = cleavedb::open(&dir)?;
    /// db.open_or_create_keyspace("users")?.put("ada", "1815")?;
    /// assert_eq!(db.open_or_create_keyspace("users")?.get("ada")?.unwrap(), "1815");
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`Options::keyspace`]: crate::Options::keyspace
    pub fn open_or_create_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.open_or_create_keyspace_with(name, self.core.options.keyspace.clone())
    }

    /// Opens a keyspace as [`Db::open_or_create_keyspace`] does; if it is created, it gets
    /// `options`. If it exists and `options` name another merge operator than it has, that is an
    /// error.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("open-or-create-keyspace-with"))?;
    /// use cleavedb::{Codec, KeyspaceOptions};
    /// let compressed = KeyspaceOptions { value_codec: Codec::Lz4, ..Default::default() };
    /// let pages = db.open_or_create_keyspace_with("pages", compressed)?;
    /// assert_eq!(pages.options().value_codec, Codec::Lz4);
    /// // The keyspace exists now, so these settings are not used.
    /// let again = db.open_or_create_keyspace_with("pages", KeyspaceOptions::default())?;
    /// assert_eq!(again.options().value_codec, Codec::Lz4);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn open_or_create_keyspace_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Keyspace> {
        self.core.check_open()?;
        let _ddl = self.core.ddl.lock();
        let known = self.core.keyspaces.load().get(name).cloned();
        let state = match known {
            Some(state) => {
                self.core.check_open()?;
                // Its operands would be merged in another way than the caller means.
                if options.merge_operator.is_some() {
                    check_operator(&state, &options)?;
                }
                state
            }
            None => self.core.create_keyspace(name, options)?,
        };
        Ok(self.handle(state))
    }

    fn handle(&self, state: Arc<KeyspaceState>) -> Keyspace {
        Keyspace { core: self.core.clone(), state }
    }

    /// Returns the keyspace called `default`, which always exists.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("default-keyspace"))?;
    /// let words = db.default_keyspace();
    /// words.put("one", "eins")?;
    /// assert_eq!(words.name(), cleavedb::DEFAULT_KEYSPACE);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn default_keyspace(&self) -> Keyspace {
        let state = self.core.keyspaces.load().get(DEFAULT_KEYSPACE).cloned();
        let state = state.expect("the default keyspace can't be dropped");
        self.handle(state)
    }

    /// Returns the names of all keyspaces, sorted.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("keyspaces"))?;
    /// for name in db.keyspaces() {
    ///     println!("{name}: about {} keys", db.keyspace(&name)?.approximate_len(..)?);
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn keyspaces(&self) -> Vec<String> {
        self.core.keyspaces.load().keys().cloned().collect()
    }

    /// Drops a keyspace with everything in it. The background frees its space as soon as nobody
    /// reads it any more. The keyspace `default` can't be dropped.
    ///
    /// Cursors and scans that were made before go on reading what they saw. Every new call on a
    /// handle of the keyspace fails with [`ErrorKind::KeyspaceDropped`].
    ///
    /// Costs one durable edit of the manifest, and where whole segments of the log are not needed
    /// any more, a sync of the log and one more edit. Fails with [`ErrorKind::NotFound`] if there
    /// is no keyspace of this name, and with [`ErrorKind::WrongState`] for `default`.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("drop-keyspace"))?;
    /// use cleavedb::ErrorKind;
    /// let old = db.create_keyspace("old")?;
    /// old.put("one", "eins")?;
    /// db.drop_keyspace("old")?;
    /// assert_eq!(old.get("one").unwrap_err().kind(), ErrorKind::KeyspaceDropped);
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    ///
    /// [`ErrorKind::KeyspaceDropped`]: crate::ErrorKind::KeyspaceDropped
    /// [`ErrorKind::NotFound`]: crate::ErrorKind::NotFound
    /// [`ErrorKind::WrongState`]: crate::ErrorKind::WrongState
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.core.check_writable()?;
        if name == DEFAULT_KEYSPACE {
            return Err(Error::wrong_state("the keyspace `default` can't be dropped")
                .advise("delete its keys instead"));
        }
        let _ddl = self.core.ddl.lock();
        let state = self.core.keyspaces.load().get(name).cloned();
        let state = state.ok_or_else(|| not_found(name))?;
        let dropped = {
            // Holding the log puts the drop between two commits: those before went to the keyspace
            // and go with it, those after find it dropped. A crash leaves the keyspace as it was,
            // or without a trace: replay skips what the log holds of it.
            let _log = self.core.committer.hold();
            let change = Change::DropKeyspace { id: state.id };
            let dropped = self.core.set.apply(|_| Ok(Edit::new(vec![change])), &[], None);
            if dropped.is_err() && self.core.set.current().keyspace(state.id).is_some() {
                // I9: the edit failed and the keyspace is there as before, so it goes on; after a
                // failed sync, for readers only.
                return dropped.map(|_| ());
            }
            self.core.set.forget(state.id);
            dropped
        };
        self.core.change_keyspaces(|keyspaces| {
            let dropped = keyspaces.remove(name);
            assert!(dropped.is_some(), "`ddl` is held, so nobody else dropped {name:?}");
        });
        if dropped.is_ok() {
            self.core.pass_what_was_dropped();
        }
        self.core.background.forget(state.id);
        self.core.committer.stall_controller().notify();
        dropped.map(|_| ())
    }
}
