//! The sources of counts: which of them are used, why the others are not, and reading them.

mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::error::causes;
pub use self::error::{NoBpf, NoCounters, TopError};
use crate::bpf::{Bpf, BpfReading, CountedEvent, CountedRecord, KernelVm, Metric, RecordKind};
use crate::counters::{self, Directory, Statistics};
use crate::model::{self, Vm};
use crate::process::{self, Holder, Process};
use crate::reading::Reading;
use crate::sampler::{Sampler, SamplerError};
use crate::waiters::{Functions, VHOST, Waiter};

/// Which sources are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All sources that can be used here.
    Available,
    /// Only programs in the kernel.
    Bpf,
    /// Only KVM's statistics.
    Counters,
}

/// The sources, ready to be read.
#[derive(Debug)]
pub struct Sources {
    bpf: Result<Bpf, NoBpf>,
    counters: Result<(), NoCounters>,
    /// Set only if exits to the VMM are not counted.
    sampler: Option<Result<Sampler, SamplerError>>,
    only: Option<u32>,
    proc: PathBuf,
    debugfs: PathBuf,
    /// The processes of the previous reading.
    before: BTreeMap<u32, Process>,
    /// Processes whose VMs were shown as ended, with the times of their starts.
    shown: BTreeMap<u32, u64>,
    /// Closed VMs that were shown as ended, and are not forgotten yet.
    shown_closed: BTreeSet<KernelVm>,
    /// The processes that hold the eventfds of ioeventfds. Holders of an eventfd are searched for only once.
    holders: BTreeMap<u32, Vec<Holder>>,
    functions: Functions,
}

impl Sources {
    /// Opens the sources for all VMs, or for the VMs of one process. `with` is the optional metrics to count.
    pub fn open(choice: Choice, only: Option<u32>, with: &[Metric]) -> Result<Self, TopError> {
        let proc = PathBuf::from("/proc");
        let debugfs = PathBuf::from(counters::FOLDER);
        let scan = process::scan(&proc, only).map_err(TopError::Processes)?;
        if let Some(pid) = only
            && scan.processes.is_empty()
        {
            return Err(TopError::NoVm(pid));
        }
        let known = counters::read(&debugfs);
        let bpf = match choice {
            Choice::Counters => Err(NoBpf::NotAsked),
            _ => {
                Bpf::attach(&creators(&proc, only, known.as_ref().ok()), with).map_err(NoBpf::from)
            }
        };
        // Counts without addresses are better than nothing, but not what was asked for.
        let bpf = match choice {
            Choice::Bpf => bpf.and_then(|bpf| Ok(bpf.by_address()?)),
            _ => bpf,
        };
        let counters = match choice {
            Choice::Bpf => Err(NoCounters::NotAsked),
            _ => known.map(drop).map_err(NoCounters::from),
        };
        match (choice, bpf, counters) {
            (_, Err(bpf), _) if choice == Choice::Bpf || !with.is_empty() => {
                Err(TopError::NoBpf(bpf))
            }
            (Choice::Counters, _, Err(counters)) => Err(TopError::NoCounters(counters)),
            (_, Err(bpf), Err(counters)) => Err(TopError::NoSource { bpf, counters }),
            (_, bpf, counters) => Ok(Self {
                sampler: (choice != Choice::Bpf && !counts(&bpf, Metric::ToVmm)).then(|| {
                    let release = std::fs::read_to_string(proc.join("sys/kernel/osrelease"));
                    Sampler::start(release.unwrap_or_default().trim())
                }),
                bpf,
                counters,
                only,
                proc,
                debugfs,
                before: scan.processes,
                shown: BTreeMap::new(),
                shown_closed: BTreeSet::new(),
                holders: BTreeMap::new(),
                functions: Functions::default(),
            }),
        }
    }

    /// The programs, or why none is used.
    pub fn bpf(&self) -> Result<&Bpf, &NoBpf> {
        self.bpf.as_ref()
    }

    /// Whether KVM's statistics are read; if not, the reason.
    pub fn counters(&self) -> Result<(), &NoCounters> {
        self.counters.as_ref().copied()
    }

    /// Why programs count nothing, or why some metrics are missing.
    pub fn missing_of_bpf(&self) -> Vec<String> {
        match &self.bpf {
            Ok(bpf) => by_cause(bpf.missing()),
            Err(NoBpf::NotAsked) => Vec::new(),
            Err(error) => vec![causes(error)],
        }
    }

    /// Why there are no statistics.
    pub fn missing_of_counters(&self) -> Vec<String> {
        match &self.counters {
            Ok(()) | Err(NoCounters::NotAsked) => Vec::new(),
            Err(error) => vec![causes(error)],
        }
    }

    /// The VMs of a reading.
    pub fn vms(&self, reading: &Reading) -> Vec<Vm> {
        model::vms(reading, |metric| counts(&self.bpf, metric))
    }

    /// Why there are no samples, if they are to be taken.
    pub fn missing_of_samples(&self) -> Option<String> {
        let error = self.sampler.as_ref()?.as_ref().err()?;
        Some(causes(error))
    }

    /// Reads all sources, counts before processes. So the process of a counted VM is found, unless the VM has ended.
    pub fn read(&mut self) -> Result<Reading, TopError> {
        let at = Instant::now();
        let (bpf, counters) = self.count()?;
        let scan = process::scan(&self.proc, self.only).map_err(TopError::Processes)?;
        let mut processes = scan.processes.clone();
        for (pid, process) in std::mem::replace(&mut self.before, scan.processes) {
            if processes.contains_key(&pid) {
                continue;
            }
            // A vCPU's thread may end after the process's first thread.
            let has_ended = !process::is_ending(&self.proc, pid);
            let process = Process {
                has_ended,
                ..process
            };
            if !has_ended {
                self.before.insert(pid, process.clone());
            }
            processes.insert(pid, process);
        }
        // If a VM starts and ends between two readings, its process is in neither list.
        for (process, _) in bpf.iter().flat_map(|bpf| bpf.vcpus.values()) {
            processes.entry(*process).or_insert_with(|| Process {
                has_ended: true,
                ..Process::default()
            });
        }
        let mut threads = BTreeSet::new();
        let mut creators = BTreeSet::new();
        if let Some(bpf) = &bpf {
            threads.extend(bpf.vcpus.values().map(|(_, thread)| *thread));
            creators.extend(bpf.counts.keys().map(|event| event.vm.creator));
        }
        for (directory, statistics) in counters.iter().flatten() {
            threads.extend(statistics.vcpus.values());
            creators.insert(directory.creator);
        }
        creators.extend(&threads);
        let owner = |thread| Some((thread, process::of_thread(&self.proc, thread)?));
        let cpu = |thread| Some((thread, process::cpu_time(&self.proc, thread)?));
        let samples = match &self.sampler {
            Some(Ok(sampler)) => {
                let pages = |pid: &u32| (*pid, process::vcpu_pages(&self.proc, *pid));
                Some(sampler.read(self.before.keys().map(pages).collect()))
            }
            _ => None,
        };
        let mut reading = Reading {
            at,
            interval: Duration::ZERO,
            processes,
            unreadable: scan.unreadable,
            creators: creators.into_iter().filter_map(owner).collect(),
            cpu: threads.into_iter().filter_map(cpu).collect(),
            bpf,
            counters,
            eois_by_cpu: eois_by_cpu("/sys/module".as_ref()),
            samples,
            holders: BTreeMap::new(),
            waiters: BTreeMap::new(),
            shown_closed: BTreeSet::new(),
        };
        let mut closed = reading.closed();
        reading.shown_closed = &self.shown_closed & &closed;
        reading.take_out(&mut self.shown);
        let ended = reading.ended();
        let last_shown = &(&closed - &reading.shown_closed) | &ended;
        if !last_shown.is_empty() {
            let shown = last_shown.iter().filter_map(|vm| reading.process_of(*vm));
            let started = |pid| Some((pid, reading.processes.get(&pid)?.started));
            self.shown.extend(shown.filter_map(started));
            // Adds what the VMs did after the reading, until they ended.
            if let (Some(later), _) = self.count()? {
                reading.update(later, &last_shown);
            }
            if let Ok(bpf) = &self.bpf {
                bpf.forget(|vm| ended.contains(&vm))?;
            }
        }
        closed.retain(|vm| !ended.contains(vm));
        self.shown_closed = closed;
        self.find_holders(&reading);
        reading.holders.clone_from(&self.holders);
        reading.waiters = self.waiters(&reading);
        Ok(reading)
    }

    /// Finds what in the kernel waits for each ioeventfd's eventfd.
    fn waiters(&mut self, reading: &Reading) -> BTreeMap<u32, Waiter> {
        let counts = reading.bpf.iter().flat_map(|bpf| &bpf.counts);
        let rings = counts.filter(|(event, _)| event.kind == RecordKind::Ring);
        let rings: Vec<(&CountedEvent, &CountedRecord)> = rings.collect();
        let addresses = rings.iter().map(|(_, counted)| counted.waiter).collect();
        self.functions.find(&self.proc, &addresses);
        let mut threads = BTreeMap::new();
        let mut waiters = BTreeMap::new();
        for (event, counted) in rings {
            let Some(name) = self.functions.name(counted.waiter) else {
                continue;
            };
            let vhost = |pid| process::vhost_thread(&self.proc, pid);
            let pid = reading.process_of(event.vm).filter(|_| name == VHOST);
            let thread = pid.and_then(|pid| *threads.entry(pid).or_insert_with(|| vhost(pid)));
            waiters.insert(counted.eventfd(), Waiter { name, thread });
        }
        waiters
    }

    /// Reads the programs' counts and KVM's statistics.
    fn count(&self) -> Result<(Option<BpfReading>, Option<Folders>), TopError> {
        let bpf = self.bpf.as_ref().ok().map(Bpf::read).transpose()?;
        // Statistics are read after the counts, because they show to which processes the counted threads belong.
        let counters = match self.counters {
            Ok(()) => Some(counters::read(&self.debugfs)?),
            Err(_) => None,
        };
        Ok((bpf, counters))
    }

    /// Finds the holders of new eventfds. A number that is no longer used may be given to a new eventfd.
    fn find_holders(&mut self, reading: &Reading) {
        let counts = reading.bpf.iter().flat_map(|bpf| &bpf.counts);
        let rings = counts.filter(|(event, _)| event.kind == RecordKind::Ring);
        let ids: BTreeSet<u32> = rings.map(|(_, counted)| counted.eventfd()).collect();
        self.holders.retain(|id, _| ids.contains(id));
        let new = |id: &u32| !self.holders.contains_key(id);
        let new: BTreeSet<u32> = ids.into_iter().filter(new).collect();
        if new.is_empty() {
            return;
        }
        let mut found = process::holders(&self.proc, &new);
        for id in new {
            self.holders
                .insert(id, found.remove(&id).unwrap_or_default());
        }
    }
}

/// Whether a metric is counted.
fn counts(bpf: &Result<Bpf, NoBpf>, metric: Metric) -> bool {
    bpf.as_ref().is_ok_and(|bpf| bpf.counts(metric))
}

/// The reasons why metrics are not counted, each with its metrics.
fn by_cause(missing: &[(Metric, impl std::error::Error + 'static)]) -> Vec<String> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for (metric, error) in missing {
        let cause = causes(error);
        match all.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, metrics)) => metrics.push(metric.name()),
            None => all.push((cause, vec![metric.name()])),
        }
    }
    let each = all.into_iter();
    each.map(|(cause, metrics)| format!("{}: {cause}", metrics.join(", ")))
        .collect()
}

/// Whether KVM uses AVIC or APICv, according to its module parameters.
fn eois_by_cpu(modules: &Path) -> bool {
    let parameters = [
        "kvm_amd/parameters/avic",
        "kvm_intel/parameters/enable_apicv",
    ];
    parameters.iter().any(|parameter| {
        let text = std::fs::read_to_string(modules.join(parameter));
        text.is_ok_and(|text| ["Y", "1"].contains(&text.trim()))
    })
}

/// The statistics of all VMs.
type Folders = BTreeMap<Directory, Statistics>;

/// The threads that created the VMs of a process, if they are known; otherwise all of its threads.
fn creators(
    proc: &Path,
    only: Option<u32>,
    known: Option<&BTreeMap<Directory, Statistics>>,
) -> Vec<u32> {
    let Some(pid) = only else {
        return Vec::new();
    };
    let known = known
        .into_iter()
        .flatten()
        .filter(|(directory, statistics)| {
            let mut threads = statistics.threads(**directory);
            threads.any(|thread| process::of_thread(proc, thread) == Some(pid))
        });
    let known: BTreeSet<u32> = known.map(|(directory, _)| directory.creator).collect();
    if known.is_empty() {
        return process::threads(proc, pid);
    }
    known.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn metrics_that_are_missing_for_the_same_reason_are_told_of_at_once() {
        let error = |code| io::Error::from_raw_os_error(code);
        let missing = [
            (Metric::ToVmm, error(libc::EPERM)),
            (Metric::Kicks, error(libc::ENOENT)),
            (Metric::Rings, error(libc::EPERM)),
        ];
        let both = format!("exits to the VMM, ioeventfds: {}", error(libc::EPERM));
        let one = format!("kicks: {}", error(libc::ENOENT));
        assert_eq!(by_cause(&missing), [both, one]);
    }

    #[test]
    fn a_module_says_whether_the_cpu_ends_interrupts() {
        let folder = tempfile::tempdir().unwrap();
        let set = |module: &str, parameter: &str, text: &str| {
            let path = folder.path().join(module).join("parameters");
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(parameter), text).unwrap();
            eois_by_cpu(folder.path())
        };
        assert!(!eois_by_cpu(folder.path()));
        assert!(!set("kvm_amd", "avic", "N\n"));
        assert!(set("kvm_amd", "avic", "Y\n"));
        // Some kernels have a number here instead of `Y` or `N`.
        assert!(set("kvm_amd", "avic", "1\n"));
        assert!(!set("kvm_amd", "avic", "0\n"));
        assert!(set("kvm_intel", "enable_apicv", "Y\n"));
    }
}
