//! The report of [`Db::space`].

use crate::base::error::Result;
use crate::db::Db;
use crate::read::demand::DemandRange;
use crate::space::SpaceSources;
use crate::space::report::SpaceReport;
use std::sync::atomic::Ordering;

impl Db {
    /// Reports where the blocks of the database are, what they hold, and who keeps what from being
    /// freed.
    ///
    /// Costs a read of every table, past the cache, and a measurement of each file; values are not
    /// read. Writers and readers go on meanwhile; what they do while the report is made may show in
    /// one of its numbers and not in another.
    ///
    /// ```
    /// # let db = cleavedb::open(cleavedb::doc_dir("db-space"))?;
    /// let space = db.space()?;
    /// if let Some(amplification) = space.amplification() {
    ///     println!("{amplification:.2} bytes on disk per live byte");
    /// }
    /// # Ok::<(), cleavedb::Error>(())
    /// ```
    pub fn space(&self) -> Result<SpaceReport> {
        let core = &self.core;
        core.check_open()?;
        SpaceSources {
            runtime: &core.runtime,
            keyspaces: &core.states(),
            log_ends: &core.log_ends,
            gc: &core.options.gc,
            scan_costs_of: &|keyspace| {
                let ranges = core.background.scan_costs(keyspace);
                let sum = |of: fn(&DemandRange) -> u64| {
                    ranges.iter().map(of).fold(0, u64::saturating_add)
                };
                (sum(|it| it.waste), sum(|it| it.ordered))
            },
            is_gc_paused: core.background.collector().paused().load(Ordering::Relaxed),
            fault_of: &|segment| core.background.collector().fault(segment),
            gc_warnings: core.background.collector().warnings(),
            read_only: core.options.read_only,
        }
        .report()
    }
}
