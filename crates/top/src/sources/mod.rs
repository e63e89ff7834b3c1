//! The sources of counts: which of them are used, why the others are not, and how they are read.

mod error;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::error::causes;
pub use self::error::{NoBpf, NoCounters, NoTracefs, TopError};
use crate::bpf::{Bpf, BpfReading, Counted, Event, Kind, Metric};
use crate::counters::{self, Directory, Statistics};
use crate::model::{self, Vm};
use crate::names::{self, Region};
use crate::process::{self, Holder, Process};
use crate::reading::Reading;
use crate::sampler::{Sampler, SamplerError};
use crate::tracefs::{self, Tracefs, TracefsError};
use crate::waiters::{Functions, VHOST, Waiter};

/// Which sources are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All that can be used here.
    Available,
    /// Only programs in the kernel.
    Bpf,
    /// Only histograms of tracepoints.
    Tracefs,
    /// Only KVM's statistics.
    Counters,
}

/// The sources, ready to be read.
#[derive(Debug)]
pub struct Sources {
    bpf: Result<Bpf, NoBpf>,
    tracefs: Result<Tracefs, NoTracefs>,
    counters: Result<(), NoCounters>,
    /// Only if exits to the VMM are not counted.
    sampler: Option<Result<Sampler, SamplerError>>,
    only: Option<u32>,
    proc: PathBuf,
    debugfs: PathBuf,
    /// The processes of the reading before.
    before: BTreeMap<u32, Process>,
    /// Processes with VMs that were shown as ended, with the time of their start.
    shown: BTreeMap<u32, u64>,
    /// The regions that a process named.
    regions: BTreeMap<u32, Vec<Region>>,
    /// The processes that hold the eventfds of ioeventfds. Each eventfd is looked for once.
    holders: BTreeMap<u32, Vec<Holder>>,
    functions: Functions,
}

impl Sources {
    /// Opens the sources for all VMs, or for those of one process. Of the optional metrics, those in `with` are counted.
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
        tracefs::remove_left_over();
        let bpf = match choice {
            Choice::Tracefs | Choice::Counters => Err(NoBpf::NotAsked),
            _ => {
                Bpf::attach(&creators(&proc, only, known.as_ref().ok()), with).map_err(NoBpf::from)
            }
        };
        // What it counts without an address is better than nothing, but not what was asked for.
        let bpf = match choice {
            Choice::Bpf => bpf.and_then(|bpf| Ok(bpf.by_address()?)),
            _ => bpf,
        };
        let is_told = |metric: &Metric| tracefs::tells(*metric);
        let is_left = |metric: &Metric| {
            let is_asked = !metric.is_optional() || with.contains(metric);
            let has_program = bpf.as_ref().is_ok_and(|bpf| bpf.counts(*metric));
            is_asked && is_told(metric) && !has_program
        };
        let untold = with.iter().find(|metric| !is_told(metric));
        let left: Vec<Metric> = Metric::ALL.into_iter().filter(is_left).collect();
        let tracefs = match choice {
            Choice::Bpf | Choice::Counters => Err(NoTracefs::NotAsked),
            _ if left.is_empty() => Err(NoTracefs::NotAsked),
            _ => match untold {
                Some(metric) if bpf.is_err() => Err(NoTracefs::from(TracefsError::Metric(*metric))),
                _ => {
                    let threads = vcpus(&proc, only, known.as_ref().ok());
                    Tracefs::open(&left, threads).map_err(NoTracefs::from)
                }
            },
        };
        let has_all = with.is_empty() || tracefs.is_ok();
        let counters = match choice {
            Choice::Bpf | Choice::Tracefs => Err(NoCounters::NotAsked),
            _ => known.map(drop).map_err(NoCounters::from),
        };
        match (choice, bpf, tracefs, counters) {
            (Choice::Tracefs, _, Err(tracefs), _) => Err(TopError::NoTracefs(tracefs)),
            (_, Err(bpf), ..) if choice == Choice::Bpf || !has_all => Err(TopError::NoBpf(bpf)),
            (Choice::Counters, .., Err(counters)) => Err(TopError::NoCounters(counters)),
            (_, Err(bpf), Err(tracefs), Err(counters)) => Err(TopError::NoSource {
                bpf: Box::new(bpf),
                tracefs,
                counters,
            }),
            (_, bpf, tracefs, counters) => Ok(Self {
                sampler: (matches!(choice, Choice::Available | Choice::Counters)
                    && !counts(&bpf, &tracefs, Metric::ToVmm))
                .then(|| {
                    let release = std::fs::read_to_string(proc.join("sys/kernel/osrelease"));
                    Sampler::start(release.unwrap_or_default().trim())
                }),
                bpf,
                tracefs,
                counters,
                only,
                proc,
                debugfs,
                before: scan.processes,
                shown: BTreeMap::new(),
                regions: BTreeMap::new(),
                holders: BTreeMap::new(),
                functions: Functions::default(),
            }),
        }
    }

    /// The programs, or why none is used.
    pub fn bpf(&self) -> Result<&Bpf, &NoBpf> {
        self.bpf.as_ref()
    }

    /// The histograms, or why none is used.
    pub fn tracefs(&self) -> Result<&Tracefs, &NoTracefs> {
        self.tracefs.as_ref()
    }

    /// Whether KVM's statistics are read, or why not.
    pub fn counters(&self) -> Result<(), &NoCounters> {
        self.counters.as_ref().copied()
    }

    /// Why programs count nothing, or which of them are missing and why.
    pub fn missing_of_bpf(&self) -> Vec<String> {
        match &self.bpf {
            Ok(bpf) => by_cause(bpf.missing()),
            Err(NoBpf::NotAsked) => Vec::new(),
            Err(error) => vec![causes(error)],
        }
    }

    /// Why histograms count nothing, or which of them are missing and why.
    pub fn missing_of_tracefs(&self) -> Vec<String> {
        match &self.tracefs {
            Ok(tracefs) => by_cause(tracefs.missing()),
            Err(NoTracefs::NotAsked) => Vec::new(),
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

    /// Names addresses of a process by these regions.
    pub fn name_regions(&mut self, pid: u32, regions: Vec<Region>) {
        self.regions.insert(pid, regions);
    }

    /// The VMs of a reading.
    pub fn vms(&self, reading: &Reading) -> Vec<Vm> {
        let is_counted = |metric| counts(&self.bpf, &self.tracefs, metric);
        let mut vms = model::vms(reading, is_counted);
        for vm in &mut vms {
            let Some(regions) = self.regions.get(&vm.pid) else {
                continue;
            };
            names::by_regions(&mut vm.addresses, regions);
            if let Some(sampled) = &mut vm.sampled {
                names::by_regions(&mut sampled.addresses, regions);
            }
        }
        vms
    }

    /// Why there are no samples, if they are to be taken.
    pub fn missing_of_samples(&self) -> Option<String> {
        let error = self.sampler.as_ref()?.as_ref().err()?;
        Some(causes(error))
    }

    /// Reads all sources. Counts before processes: a VM that is counted is then found, or has ended.
    pub fn read(&mut self) -> Result<Reading, TopError> {
        let at = Instant::now();
        let (bpf, counters) = self.count()?;
        let scan = process::scan(&self.proc, self.only).map_err(TopError::Processes)?;
        let mut processes = scan.processes.clone();
        for (pid, process) in std::mem::replace(&mut self.before, scan.processes) {
            if processes.contains_key(&pid) {
                continue;
            }
            // A vCPU's thread may end after the first thread.
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
        // If a VM started and ended between two readings, its process is in neither of their lists.
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
        let traced = self.tracefs.iter().flat_map(Tracefs::creators);
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
            creators: traced
                .chain(creators.into_iter().filter_map(owner))
                .collect(),
            cpu: threads.into_iter().filter_map(cpu).collect(),
            bpf,
            counters,
            eois_by_cpu: eois_by_cpu("/sys/module".as_ref()),
            samples,
            holders: BTreeMap::new(),
            waiters: BTreeMap::new(),
        };
        reading.take_out(&mut self.shown);
        let ended = reading.ended();
        if !ended.is_empty() {
            let shown = ended.iter().filter_map(|vm| reading.process_of(*vm));
            let started = |pid| Some((pid, reading.processes.get(&pid)?.started));
            self.shown.extend(shown.filter_map(started));
            // What they did after the reading, until they ended.
            if let (Some(later), _) = self.count()? {
                reading.update(later, &ended);
            }
            if let Ok(bpf) = &self.bpf {
                bpf.forget(|vm| ended.contains(&vm))?;
            }
            if let Ok(tracefs) = &mut self.tracefs {
                tracefs.forget(&ended);
            }
        }
        self.find_holders(&reading);
        reading.holders.clone_from(&self.holders);
        reading.waiters = self.waiters(&reading);
        Ok(reading)
    }

    /// What in the kernel waits for each eventfd of an ioeventfd.
    fn waiters(&mut self, reading: &Reading) -> BTreeMap<u32, Waiter> {
        let counts = reading.bpf.iter().flat_map(|bpf| &bpf.counts);
        let rings = counts.filter(|(event, _)| event.kind == Kind::Ring);
        let rings: Vec<(&Event, &Counted)> = rings.collect();
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

    /// What programs and histograms count, and KVM's statistics.
    fn count(&mut self) -> Result<(Option<BpfReading>, Option<Folders>), TopError> {
        let mut bpf = self.bpf.as_ref().ok().map(Bpf::read).transpose()?;
        let traced = self.tracefs.as_ref().ok().map(Tracefs::read).transpose()?;
        // Later, because they say whose the threads are that were counted.
        let counters = match self.counters {
            Ok(()) => Some(counters::read(&self.debugfs)?),
            Err(_) => None,
        };
        if let (Ok(tracefs), Some(traced)) = (&mut self.tracefs, traced) {
            let unshown = match counters {
                Some(_) => None,
                None => counters::read(&self.debugfs).ok(),
            };
            let known = counters.as_ref().or(unshown.as_ref());
            if let Some(threads) = vcpus(&self.proc, self.only, known) {
                tracefs.add_threads(&threads)?;
            }
            let events = bpf.get_or_insert_default();
            tracefs.add_to(events, &traced, &self.proc, known);
        }
        Ok((bpf, counters))
    }

    /// Looks for the holders of eventfds that are new. A number that is not used any more may be given to another eventfd.
    fn find_holders(&mut self, reading: &Reading) {
        let counts = reading.bpf.iter().flat_map(|bpf| &bpf.counts);
        let rings = counts.filter(|(event, _)| event.kind == Kind::Ring);
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
fn counts(bpf: &Result<Bpf, NoBpf>, tracefs: &Result<Tracefs, NoTracefs>, metric: Metric) -> bool {
    let has_program = bpf.as_ref().is_ok_and(|bpf| bpf.counts(metric));
    has_program || tracefs.as_ref().is_ok_and(|tracefs| tracefs.counts(metric))
}

/// The reasons why metrics are not counted, each after its metrics.
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

/// Whether KVM uses AVIC or APICv, by the parameters of its modules.
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

/// The threads of a process's vCPUs, if they are known and only this process is looked at.
fn vcpus(proc: &Path, only: Option<u32>, known: Option<&Folders>) -> Option<BTreeSet<u32>> {
    let folders = known.filter(|_| counters::TELLS_THREADS)?.values();
    let threads = folders.flat_map(|folder| folder.vcpus.values().copied());
    let pid = only?;
    Some(
        threads
            .filter(|thread| process::of_thread(proc, *thread) == Some(pid))
            .collect(),
    )
}

/// The threads that created the VMs of a process, as far as it is known; all its threads otherwise.
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
        // Before it was a truth value.
        assert!(set("kvm_amd", "avic", "1\n"));
        assert!(!set("kvm_amd", "avic", "0\n"));
        assert!(set("kvm_intel", "enable_apicv", "Y\n"));
    }
}
