//! The CPUs that this process may use, and pinning of the calling thread to some of them.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Why a thread could not be pinned, or its allowed CPUs could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AffinityError {
    /// `sched_getaffinity` failed.
    #[error("cannot read the CPUs that this thread may use")]
    Read(#[source] io::Error),
    /// `sched_setaffinity` failed.
    #[error("cannot pin a thread to {cpus:?}")]
    Pin {
        /// The CPUs that the thread was to be pinned to.
        cpus: Vec<usize>,
        /// The error of the system call.
        #[source]
        source: io::Error,
    },
}

/// The CPUs that the calling thread may use, ascending.
pub fn allowed_cpus() -> Result<Vec<usize>, AffinityError> {
    let set = sched_getaffinity(None).map_err(|error| AffinityError::Read(error.into()))?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect())
}

/// Pins the calling thread to `cpu`. If that is not allowed, the thread keeps its current CPUs.
pub fn prefer(cpu: usize) {
    let _ = pin(&[cpu]);
}

/// Restricts the calling thread to `cpus`.
pub fn pin(cpus: &[usize]) -> Result<(), AffinityError> {
    let mut set = CpuSet::new();
    let is_possible = cpus.iter().all(|cpu| *cpu < CpuSet::MAX_CPU);
    for cpu in cpus.iter().filter(|_| is_possible) {
        set.set(*cpu);
    }
    // The kernel refuses a set without a CPU.
    sched_setaffinity(None, &set).map_err(|error| AffinityError::Pin {
        cpus: cpus.to_vec(),
        source: error.into(),
    })
}

/// Keeps the calling thread on some CPUs. Dropping this value restores the previous CPUs.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
    /// Affinity belongs to a thread, so the guard must be dropped on the thread that made it.
    not_send: std::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// Restricts the calling thread to `cpus`.
    pub fn to(cpus: &[usize]) -> Result<Self, AffinityError> {
        let before = allowed_cpus()?;
        pin(cpus)?;
        Ok(Self {
            before,
            not_send: std::marker::PhantomData,
        })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The thread was allowed these CPUs when the set was read. If it no longer is (a cpuset shrank), the kernel has
        // already moved the thread itself.
        let _ = pin(&self.before);
    }
}

/// The default CPUs for the two sides of a handover: the first allowed CPU, and the next one that is on a different
/// core. The second allowed CPU if all share a core; a single CPU if only one is allowed.
pub fn default_pair(allowed: &[usize]) -> Vec<usize> {
    let Some(first) = allowed.first().copied() else {
        return Vec::new();
    };
    let siblings = siblings(first);
    let other_core = allowed.iter().find(|cpu| !siblings.contains(cpu));
    let second = other_core.or_else(|| allowed.get(1)).copied();
    std::iter::once(first).chain(second).collect()
}

/// The hardware threads of `cpu`'s core, including `cpu`; only `cpu` if the kernel does not list them.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    std::fs::read_to_string(path)
        .ok()
        .and_then(|list| vmbell_report::cpu_list::parse(list.trim()).ok())
        .unwrap_or_else(|| vec![cpu])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_holds_until_the_guard_is_dropped() {
        let before = allowed_cpus().unwrap();
        let last = *before.last().unwrap();
        let guard = Pinned::to(&[last]).unwrap();
        assert_eq!(allowed_cpus().unwrap(), [last]);
        drop(guard);
        assert_eq!(allowed_cpus().unwrap(), before);
    }

    #[test]
    fn an_absent_cpu_is_an_error_that_names_it() {
        let error = Pinned::to(&[1023]).unwrap_err();
        assert!(error.to_string().contains("1023"), "{error}");
        let error = Pinned::to(&[1 << 20]).unwrap_err();
        assert!(error.to_string().contains("1048576"), "{error}");
    }

    #[test]
    fn a_pair_starts_with_the_first_allowed_cpu() {
        assert_eq!(default_pair(&[]), Vec::<usize>::new());
        assert_eq!(default_pair(&[5]), [5]);
        let pair = default_pair(&[0, 1]);
        assert_eq!(pair, [0, 1]);
    }
}
