//! What all sources read at one moment, the difference of two such readings, and which VMs have ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::bpf::{BpfReading, CountedRecord, KernelVm};
use crate::counters::{Directory, Statistics};
use crate::process::{Holder, Process};
use crate::rates;
use crate::sampler::Samples;
use crate::waiters::Waiter;

/// What all sources read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// When the sources were read.
    pub at: Instant,
    /// The time between the two readings, if this is a difference.
    pub interval: Duration,
    /// The processes with VMs. Processes that have ended since the previous reading are marked.
    pub processes: BTreeMap<u32, Process>,
    /// The number of processes that could not be read.
    pub unreadable: usize,
    /// The process of each thread that created a VM.
    pub creators: HashMap<u32, u32>,
    /// CPU time of the vCPUs' threads, in clock ticks.
    pub cpu: HashMap<u32, u64>,
    /// What the BPF programs and histograms counted.
    pub bpf: Option<BpfReading>,
    /// KVM's statistics.
    pub counters: Option<BTreeMap<Directory, Statistics>>,
    /// Whether CPUs end interrupts themselves.
    pub eois_by_cpu: bool,
    /// Where vCPUs were seen.
    pub samples: Option<Samples>,
    /// The processes that hold the eventfds of ioeventfds, by the eventfd's number.
    pub holders: BTreeMap<u32, Vec<Holder>>,
    /// What in the kernel waits for the eventfds of ioeventfds, by the eventfd's number.
    pub waiters: BTreeMap<u32, Waiter>,
    /// Closed VMs that an earlier reading showed as ended.
    pub(crate) shown_closed: BTreeSet<KernelVm>,
}
impl Reading {
    /// What happened since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        let bpf = self.bpf.as_ref().map(|later| {
            let none = BpfReading::default();
            let earlier = earlier.bpf.as_ref().unwrap_or(&none);
            let difference = |later: CountedRecord, earlier: CountedRecord| CountedRecord {
                count: rates::since(later.count, earlier.count),
                nanoseconds: rates::since(later.nanoseconds, earlier.nanoseconds),
                ..later
            };
            BpfReading {
                counts: rates::table(
                    later.counts.clone(),
                    |event| earlier.counts.get(event).copied(),
                    difference,
                ),
                vcpus: later.vcpus.clone(),
                lost: rates::since(later.lost, earlier.lost),
                isa: later.isa,
            }
        });
        let counters = self.counters.as_ref().map(|later| {
            let before = earlier.counters.as_ref();
            let difference = |(directory, later): (&Directory, &Statistics)| {
                let before = before.and_then(|before| before.get(directory));
                let before = |name: &_| before?.values.get(name).copied();
                let statistics = Statistics {
                    vcpus: later.vcpus.clone(),
                    has_no_vcpu: later.has_no_vcpu,
                    values: rates::table(later.values.clone(), before, rates::since),
                };
                (*directory, statistics)
            };
            later.iter().map(difference).collect()
        });
        let samples = self.samples.as_ref().map(|later| {
            let before = earlier.samples.as_ref();
            let before = |place: &_| before?.counts.get(place).copied();
            Samples {
                counts: rates::table(later.counts.clone(), before, rates::since),
                refused: later.refused,
            }
        });
        Self {
            samples,
            interval: self.at.saturating_duration_since(earlier.at),
            cpu: rates::table(
                self.cpu.clone(),
                |thread| earlier.cpu.get(thread).copied(),
                rates::since,
            ),
            bpf,
            counters,
            ..self.clone()
        }
    }

    /// Finds the process of a VM that the BPF programs counted.
    pub(crate) fn process_of(&self, vm: KernelVm) -> Option<u32> {
        let vcpus = &self.bpf.as_ref()?.vcpus;
        let mut of_vm = vcpus.iter().filter(|((of, _), _)| *of == vm);
        let by_vcpu = of_vm.next().map(|(_, (process, _))| *process);
        by_vcpu.or_else(|| self.creators.get(&vm.creator).copied())
    }

    /// Removes the processes in `shown`. An earlier reading showed that their VMs have ended, but a process may outlive
    /// its VM. First drops from `shown` the processes that have ended, and those that have a VM again.
    pub(crate) fn take_out(&mut self, shown: &mut BTreeMap<u32, u64>) {
        shown.retain(|pid, started| {
            let process = self.processes.get(pid);
            process.is_some_and(|process| process.started == *started) && !self.has_vm(*pid)
        });
        self.processes.retain(|pid, _| !shown.contains_key(pid));
    }

    /// Whether a source knows a VM of this process that was not shown as ended.
    fn has_vm(&self, pid: u32) -> bool {
        let counted = self.bpf.iter().flat_map(|bpf| bpf.counts.keys());
        let counted = counted.map(|event| event.vm);
        let mut counted = counted.filter(|vm| !self.shown_closed.contains(vm));
        let mut folders = self.counters.iter().flatten();
        counted.any(|vm| self.process_of(vm) == Some(pid))
            || folders.any(|(directory, statistics)| self.is_of(*directory, statistics, pid))
    }

    /// Whether the VM with these statistics belongs to this process.
    pub(crate) fn is_of(&self, directory: Directory, statistics: &Statistics, pid: u32) -> bool {
        let mut threads = statistics.threads(directory);
        threads.any(|thread| self.creators.get(&thread) == Some(&pid))
    }

    /// Replaces the counts of some VMs with later ones from the BPF programs.
    pub(crate) fn update(&mut self, later: BpfReading, vms: &BTreeSet<KernelVm>) {
        let Some(bpf) = &mut self.bpf else {
            return;
        };
        let counts = later.counts.into_iter();
        bpf.counts
            .extend(counts.filter(|(event, _)| vms.contains(&event.vm)));
        let vcpus = later.vcpus.into_iter();
        bpf.vcpus
            .extend(vcpus.filter(|((vm, _), _)| vms.contains(vm)));
    }

    /// Returns the VMs in the programs' counts that have ended.
    pub(crate) fn ended(&self) -> BTreeSet<KernelVm> {
        let mut all = self.counted();
        all.retain(|vm| self.has_ended(*vm));
        all
    }

    /// Returns the VMs in the programs' counts that are closed.
    pub(crate) fn closed(&self) -> BTreeSet<KernelVm> {
        let mut all = self.counted();
        all.retain(|vm| self.is_closed(*vm));
        all
    }

    fn counted(&self) -> BTreeSet<KernelVm> {
        let counts = self.bpf.iter().flat_map(|bpf| bpf.counts.keys());
        counts.map(|event| event.vm).collect()
    }

    /// Whether a VM has ended: its process has, or all threads of its vCPUs have and it has no folder of statistics.
    pub(crate) fn has_ended(&self, vm: KernelVm) -> bool {
        let process = self.process_of(vm).and_then(|pid| self.processes.get(&pid));
        if process.is_none_or(|process| process.has_ended) {
            return true;
        }
        let vcpus = self.bpf.iter().flat_map(|bpf| &bpf.vcpus);
        let mut threads = vcpus.filter(|((of, _), _)| *of == vm).peekable();
        let has_threads = threads.peek().is_some();
        let lives = |(_, (_, thread)): (_, &(u32, u32))| self.cpu.contains_key(thread);
        let mut folders = self.counters.iter().flat_map(BTreeMap::values);
        has_threads && !threads.any(lives) && !folders.any(|folder| self.is_named(folder, vm))
    }

    /// Whether a VM's folder of statistics is gone, although its threads may still run: they end later than the VM, or
    /// run another VM. The VM is not forgotten yet, because KVM may use the same `struct kvm` for the process's next
    /// VM.
    pub(crate) fn is_closed(&self, vm: KernelVm) -> bool {
        // Until a VM runs, its folder names no thread, but already has its creator.
        let may_be_its = |(directory, statistics): (&Directory, &Statistics)| {
            let vcpus = self.bpf.iter().flat_map(|bpf| bpf.vcpus.keys());
            let mut others = vcpus.map(|(of, _)| *of).filter(|of| *of != vm);
            self.is_named(statistics, vm)
                || directory.creator == vm.creator
                    && !others.any(|other| self.is_named(statistics, other))
        };
        let folders = self.counters.as_ref();
        folders.is_some_and(|folders| !folders.iter().any(may_be_its))
    }

    /// Whether a folder names a thread of this VM.
    fn is_named(&self, folder: &Statistics, vm: KernelVm) -> bool {
        let mut threads = folder.vcpus.iter();
        threads.any(|(id, thread)| {
            let vcpus = self.bpf.as_ref().map(|bpf| &bpf.vcpus);
            let known = vcpus.and_then(|vcpus| vcpus.get(&(vm, *id)));
            known.is_some_and(|(_, known)| known == thread)
        })
    }
}
