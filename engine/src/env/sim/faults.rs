//! Planned failures of simulated file system calls, and the counts of calls that they rest on.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// A kind of file system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "named as the methods of Fs and File")]
pub enum Call {
    Create,
    Open,
    Read,
    Write,
    Sync,
    SetLen,
    Punch,
    Rename,
    Remove,
    HardLink,
    CreateDir,
    SyncDir,
    List,
    Lock,
    /// Length, allocation, number of names, existence, or free space.
    Inspect,
}

impl Call {
    /// Returns true for calls that change the disk or make a change durable.
    pub fn mutates(self) -> bool {
        !matches!(self, Call::Open | Call::Read | Call::List | Call::Inspect)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Call::Create => "create",
            Call::Open => "open",
            Call::Read => "read",
            Call::Write => "write",
            Call::Sync => "sync",
            Call::SetLen => "set-len",
            Call::Punch => "punch",
            Call::Rename => "rename",
            Call::Remove => "remove",
            Call::HardLink => "link",
            Call::CreateDir => "create-dir",
            Call::SyncDir => "sync-dir",
            Call::List => "list",
            Call::Lock => "lock",
            Call::Inspect => "inspect",
        }
    }
}

/// A planned fault: the n-th call of a kind fails, counted from when the plan is added.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    call: Option<Call>,
    nth: u64,
    for_good: bool,
    error: Option<io::ErrorKind>,
    name_part: String,
    seen: u64,
}

impl FaultPlan {
    /// Creates a plan by which the next call of this kind fails, once, with EIO.
    pub fn new(call: Call) -> FaultPlan {
        FaultPlan { call: Some(call), ..FaultPlan::any_call() }
    }

    /// Creates a plan by which the next call of any kind fails, once, with EIO.
    pub fn any_call() -> FaultPlan {
        let name_part = String::new();
        FaultPlan { call: None, nth: 1, for_good: false, error: None, name_part, seen: 0 }
    }

    /// Lets the n-th call fail instead of the next; the first is 1.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> FaultPlan {
        assert!(nth > 0, "calls are counted from 1");
        self.nth = nth;
        self
    }

    /// Lets all later calls fail, too.
    #[must_use]
    pub fn for_good(mut self) -> FaultPlan {
        self.for_good = true;
        self
    }

    /// Uses this error instead of EIO.
    #[must_use]
    pub fn error(mut self, error: io::ErrorKind) -> FaultPlan {
        self.error = Some(error);
        self
    }

    /// Restricts the plan to calls on files with this text in their path; no others are counted.
    #[must_use]
    pub fn on(mut self, name_part: &str) -> FaultPlan {
        name_part.clone_into(&mut self.name_part);
        self
    }

    fn strikes(&mut self, call: Call, path: &Path) -> Option<io::Error> {
        let concerned = self.call.is_none_or(|wanted| wanted == call)
            && path.to_string_lossy().contains(&self.name_part);
        if !concerned {
            return None;
        }
        self.seen += 1;
        let strikes = self.seen == self.nth || self.for_good && self.seen > self.nth;
        strikes.then(|| self.to_error())
    }

    fn to_error(&self) -> io::Error {
        const EIO: i32 = 5;
        match self.error {
            Some(kind) => io::Error::new(kind, format!("{kind} (simulated)")),
            None => io::Error::from_raw_os_error(EIO),
        }
    }
}

/// The calls so far and the planned faults.
#[derive(Clone, Default)]
pub(super) struct Faults {
    plans: Vec<FaultPlan>,
    calls: BTreeMap<Call, u64>,
    mutations: u64,
    crash_at: Option<u64>,
}

/// The decision on one call.
pub(super) struct CallFate {
    /// True if the power fails during the call.
    pub(super) power_fails: bool,
    pub(super) error: Option<io::Error>,
}

impl Faults {
    pub(super) fn plan(&mut self, plan: FaultPlan) {
        self.plans.push(plan);
    }

    pub(super) fn clear(&mut self) {
        self.plans.clear();
    }

    pub(super) fn crash_at(&mut self, mutation: u64) {
        self.crash_at = Some(mutation);
    }

    pub(super) fn calls(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or(0)
    }

    pub(super) fn all_calls(&self) -> u64 {
        self.calls.values().sum()
    }

    pub(super) fn mutations(&self) -> u64 {
        self.mutations
    }

    /// Counts a call and decides whether it fails.
    pub(super) fn fate(&mut self, call: Call, path: &Path) -> CallFate {
        *self.calls.entry(call).or_default() += 1;
        self.mutations += u64::from(call.mutates());
        let power_fails = call.mutates() && self.crash_at == Some(self.mutations);
        // Each plan sees each call, so that one plan does not shift the count of another.
        let errors: Vec<io::Error> =
            self.plans.iter_mut().filter_map(|plan| plan.strikes(call, path)).collect();
        CallFate { power_fails, error: errors.into_iter().next() }
    }
}
