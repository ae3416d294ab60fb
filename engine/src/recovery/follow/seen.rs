//! What a follower has seen of the manifest: a version, and where the next edit will be.

use crate::base::error::{InFile, Result};
use crate::base::key::SeqNo;
use crate::env::Env;
use crate::recovery::comparators::Comparators;
use crate::recovery::manifest::{check_version, count_change};
use crate::version::Version;
use crate::version::build::{Removed, VersionBuilder};
use crate::version::edit::{Change, Edit};
use crate::version::files::{TableContext, names};
use crate::version::manifest::{Current, read_manifest_live};
use std::path::Path;
use std::sync::Arc;

/// The state that the edits of a manifest describe which were seen so far.
#[derive(Clone)]
pub(super) struct SeenManifest {
    pub(super) current: Current,
    /// The offset of the next record.
    end: u64,
    pub(super) version: Version,
    /// Keyspaces from this id on are not known yet.
    pub(super) next_file: u64,
    pub(super) last_seqno: SeqNo,
    /// The newest number of an entry in a table.
    pub(super) last_in_tables: SeqNo,
}

/// A manifest, and an offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ManifestPlace {
    manifest: u64,
    offset: u64,
}

/// The place and the rules by which a manifest is read.
pub(super) struct ManifestSource<'a> {
    pub(super) env: &'a Env,
    /// The directory of the manifest.
    pub(super) dir: &'a Path,
    pub(super) tables: &'a Arc<TableContext>,
    pub(super) comparators: &'a Comparators,
}

impl SeenManifest {
    /// Reads all of the manifest that `current` names.
    pub(super) fn read(source: &ManifestSource<'_>, current: Current) -> Result<SeenManifest> {
        let mut seen = SeenManifest {
            current,
            end: 0,
            version: Version::default(),
            next_file: current.manifest + 1,
            last_seqno: 0,
            last_in_tables: 0,
        };
        seen.go_on(source, None, &mut Removed::default())?;
        Ok(seen)
    }

    /// Reads the edits that were made since; returns true if there is one. After an error the state
    /// must not be used.
    pub(super) fn read_on(
        &mut self,
        source: &ManifestSource<'_>,
        removed: &mut Removed,
    ) -> Result<bool> {
        self.go_on(source, Some(self.end), removed)
    }

    /// Returns how far it was read.
    pub(super) fn place(&self) -> ManifestPlace {
        ManifestPlace { manifest: self.current.manifest, offset: self.end }
    }

    fn go_on(
        &mut self,
        source: &ManifestSource<'_>,
        from: Option<u64>,
        removed: &mut Removed,
    ) -> Result<bool> {
        let known = source.comparators.clone();
        let comparator_of = move |name: &str| known.named(name);
        let builder = VersionBuilder { tables: source.tables, comparator_of: &comparator_of };
        let (database, id) = (&source.tables.identity, self.current.manifest);
        let end = read_manifest_live(source.env, source.dir, database, id, from, |edit| {
            removed.extend(builder.follow(&mut self.version, &edit)?);
            self.count(&edit);
            Ok(())
        })?;
        let is_changed = from != Some(end);
        self.end = end;
        if is_changed {
            check_version(&self.version).in_file(&names::manifest(source.dir, id))?;
        }
        Ok(is_changed)
    }

    fn count(&mut self, edit: &Edit) {
        for change in &edit.changes {
            count_change(change, &mut self.next_file, &mut self.last_seqno);
            if let Change::AddTable { meta, .. } = change {
                let newest = meta.ingested_at.max(meta.summary.max_seqno);
                self.last_in_tables = self.last_in_tables.max(newest);
            }
        }
    }
}
