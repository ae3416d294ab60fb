//! Keeps the threads of a simulation on one core. Only one of them runs at a time, so on several
//! cores each step first waits until another core wakes up: the tests that plant faults took 168 s
//! on two cores, and take 70 s.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The number of simulations of this process on each core.
static RUNNING: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// While this lives, the calling thread and those that it starts stay on one core.
pub(super) struct OneCore {
    core: usize,
    before: CpuSet,
}

impl OneCore {
    /// Takes the core with the fewest simulations of those that the calling thread may use. Returns
    /// `None` if the system does not let it: the simulation is only slower then.
    pub(super) fn take() -> Option<OneCore> {
        let before = sched_getaffinity(None).ok()?;
        let core = {
            let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            let allowed = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core));
            let core = allowed.min_by_key(|core| running.get(core).copied().unwrap_or_default())?;
            *running.entry(core).or_default() += 1;
            core
        };
        let taken = OneCore { core, before };
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one).ok().map(|()| taken)
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        // Where it fails, the thread stays on its core, and is only slower.
        let _ = sched_setaffinity(None, &self.before);
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        *running.get_mut(&self.core).expect("the core was counted as it was taken") -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_simulation_are_on_one_core_until_its_end() {
        let cores = || sched_getaffinity(None).unwrap().count();
        let before = cores();
        let taken = OneCore::take().unwrap();
        assert_eq!((cores(), std::thread::spawn(cores).join().unwrap()), (1, 1));
        drop(taken);
        assert_eq!(cores(), before);
    }
}
