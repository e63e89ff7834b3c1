//! VMs and what they did, from one reading or from the difference of two.
//!
//! BPF programs identify a VM by its kernel address, statistics by a debugfs folder. Both know the threads of vCPUs. A
//! VM that has not run yet is identified by the thread that created it. Unknown values are `None`, never 0.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{Address, Eventfd, at, named};
use crate::bpf::{CountedEvent, CountedRecord, KernelVm, Metric, RecordKind};
use crate::counters::{Directory, Statistics};
pub use crate::exits::Reason;
use crate::names::Space;
use crate::process::Process;
use crate::reading::Reading;
use crate::sampled::Sampled;
use crate::{exits, names};

/// A VM.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vm {
    /// The VMM's process.
    pub pid: u32,
    /// The VM's descriptor in that process; `None` if it is only in KVM's statistics and those are not read.
    pub fd: Option<u32>,
    /// The VMM's name; `None` if it ended before it could be read.
    pub vmm: Option<String>,
    /// The VM's name, from the VMM's arguments.
    pub name: Option<String>,
    /// Whether the VM has ended.
    pub has_ended: bool,
    /// Whether the CPU ends interrupts itself (AVIC, APICv), so that EOIs are not counted.
    pub eois_by_cpu: bool,
    /// The threads of the VM's vCPUs, by number.
    pub vcpus: BTreeMap<u32, u32>,
    /// CPU time of the vCPUs' threads, in clock ticks.
    pub cpu: Option<u64>,
    /// KVM's statistics, by KVM's names.
    pub statistics: Option<BTreeMap<&'static str, u64>>,
    /// Counts by metric. A metric that is not counted is missing.
    pub counts: BTreeMap<Metric, u64>,
    /// The addresses of exits to the VMM, ioeventfds and accesses that KVM answered, the most frequent first.
    pub addresses: Vec<Address>,
    /// How often a vCPU returned to the VMM without an address, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// All exits by CPU exit reason, the most frequent first.
    pub exits: Vec<Reason>,
    /// Irqfds, by GSI.
    pub irqfds: Vec<Irqfd>,
    /// Where the VM's vCPUs were seen. `None` also if the process has several VMs, because their pages cannot be told
    /// apart.
    pub sampled: Option<Sampled>,
}

/// An interrupt that an irqfd raises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irqfd {
    /// The GSI.
    pub gsi: u64,
    /// The number of signals.
    pub count: u64,
    /// Signals whose interrupt a kernel worker had to raise later.
    pub by_worker: u64,
    /// The thread that signalled the eventfd first.
    pub first_signaller: Option<u32>,
}

/// Assigns a reading to VMs, by process. `is_counted` says which metrics the BPF programs count.
pub fn vms(reading: &Reading, is_counted: impl Fn(Metric) -> bool) -> Vec<Vm> {
    let mut all = Vec::new();
    for (pid, process) in &reading.processes {
        let parts = parts(reading, *pid);
        let samples = reading.samples.as_ref().filter(|_| parts.len() == 1);
        for (directory, vm) in parts {
            let mut joined = Vm {
                sampled: samples.map(|samples| Sampled::of(samples, *pid)),
                pid: *pid,
                vmm: process.vmm.clone(),
                name: process.name.clone(),
                has_ended: process.has_ended,
                eois_by_cpu: reading.eois_by_cpu,
                ..Vm::default()
            };
            if let Some(directory) = directory {
                joined.fd = Some(directory.fd);
                let counters = reading.counters.as_ref();
                if let Some(statistics) = counters.and_then(|all| all.get(&directory)) {
                    joined.vcpus.extend(&statistics.vcpus);
                    joined.statistics = Some(statistics.values.clone());
                }
            }
            if reading.bpf.is_some() {
                let counted = Metric::ALL.into_iter().filter(|metric| is_counted(*metric));
                joined.counts = counted.map(|metric| (metric, 0)).collect();
            }
            if let Some(vm) = vm {
                joined.has_ended |= reading.has_ended(vm) || reading.is_closed(vm);
                joined.count(reading, vm, process);
            }
            if joined.eois_by_cpu {
                // Some EOIs still exit, but counting only those would be wrong.
                joined.counts.remove(&Metric::Eois);
                joined.counts.remove(&Metric::PvEois);
            }
            let times = joined.vcpus.values().map(|thread| reading.cpu.get(thread));
            joined.cpu = match joined.vcpus.is_empty() {
                true => None,
                false => times.sum::<Option<u64>>(),
            };
            all.push(joined);
        }
    }
    all
}

/// The VMs of a process: each with its folder of statistics and its VM in the programs' counts.
fn parts(reading: &Reading, pid: u32) -> Vec<(Option<Directory>, Option<KernelVm>)> {
    let none = BTreeMap::new();
    let directories = reading.counters.as_ref().unwrap_or(&none);
    let is_of_process = |(directory, statistics): &(&Directory, &Statistics)| {
        !statistics.has_no_vcpu && reading.is_of(**directory, statistics, pid)
    };
    let directories: Vec<_> = directories.iter().filter(is_of_process).collect();
    let mut vms = BTreeSet::new();
    if let Some(bpf) = &reading.bpf {
        let counted = bpf.counts.keys().map(|event| event.vm);
        let all: BTreeSet<KernelVm> = counted.chain(bpf.vcpus.keys().map(|(vm, _)| *vm)).collect();
        vms.extend(
            all.into_iter()
                .filter(|vm| !reading.shown_closed.contains(vm))
                .filter(|vm| reading.process_of(*vm) == Some(pid)),
        );
    }

    let mut parts = Vec::new();
    let mut alone = Vec::new();
    for (directory, statistics) in directories {
        let has_thread = |vm: &&KernelVm| {
            let mut vcpus = statistics.vcpus.iter();
            vcpus.any(|(id, thread)| {
                let vcpus = reading.bpf.as_ref().map(|bpf| &bpf.vcpus);
                let found = vcpus.and_then(|vcpus| vcpus.get(&(**vm, *id)));
                found.is_some_and(|(_, found)| found == thread)
            })
        };
        match vms.iter().find(has_thread).copied() {
            Some(vm) => {
                vms.remove(&vm);
                parts.push((Some(*directory), Some(vm)));
            }
            None => alone.push(*directory),
        }
    }
    // No vCPU has run since the BPF programs were attached. The creator identifies the VM if it created only one such
    // VM.
    for directory in &alone {
        let same = |vm: &&KernelVm| vm.creator == directory.creator;
        let of_creator = |other: &&Directory| other.creator == directory.creator;
        let found: Vec<KernelVm> = vms.iter().filter(same).copied().collect();
        let is_only = alone.iter().filter(of_creator).count() == 1;
        let vm = match found[..] {
            [vm] if is_only => Some(vm),
            _ => None,
        };
        if let Some(vm) = vm {
            vms.remove(&vm);
        }
        parts.push((Some(*directory), vm));
    }
    // VMs without a folder have ended, or there are no statistics.
    parts.extend(vms.into_iter().map(|vm| (None, Some(vm))));
    if parts.is_empty() {
        parts.push((None, None));
    }
    parts.sort();
    parts
}

impl Vm {
    /// Adds the BPF programs' counts.
    fn count(&mut self, reading: &Reading, vm: KernelVm, process: &Process) {
        let Some(bpf) = &reading.bpf else {
            return;
        };
        let pid = self.pid;
        let eventfd = |id| {
            let holders = reading.holders.get(&id).into_iter().flatten();
            let others = holders.filter(|holder| holder.pid != pid);
            Eventfd {
                id,
                fd: process.eventfds.get(&id).copied(),
                holders: others.cloned().collect(),
                waiter: reading.waiters.get(&id).cloned(),
            }
        };
        for ((of, id), (_, thread)) in &bpf.vcpus {
            if *of == vm {
                self.vcpus.entry(*id).or_insert(*thread);
            }
        }
        let mut addresses = BTreeMap::new();
        let mut irqfds = BTreeMap::new();
        let mut exits: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
        for (event, counted) in &bpf.counts {
            if event.vm != vm {
                continue;
            }
            let metric = match event.kind {
                RecordKind::Port
                | RecordKind::Mmio
                | RecordKind::Msr
                | RecordKind::Other
                | RecordKind::Failed => Metric::ToVmm,
                RecordKind::Ring => Metric::Rings,
                RecordKind::Irqfd => Metric::Irqfds,
                RecordKind::Message => Metric::Messages,
                RecordKind::Line => Metric::Lines,
                RecordKind::Kick => Metric::Kicks,
                RecordKind::Eoi => Metric::Eois,
                RecordKind::PvEoi => Metric::PvEois,
                RecordKind::Exit => Metric::Exits,
                RecordKind::KvmPort | RecordKind::KvmMmio | RecordKind::KvmMsr => Metric::ByKvm,
            };
            *self.counts.entry(metric).or_default() += counted.count;
            if let Some(time) = self.counts.get_mut(&Metric::VmmTime) {
                *time += counted.nanoseconds;
            }
            match event.kind {
                RecordKind::Port => at(&mut addresses, Space::Port, event).exit(event, *counted),
                RecordKind::Mmio => at(&mut addresses, Space::Mmio, event).exit(event, *counted),
                RecordKind::Msr => at(&mut addresses, Space::Msr, event).exit(event, *counted),
                RecordKind::Ring => {
                    let address = at(&mut addresses, counted.space(), event);
                    address.ring(event, *counted, eventfd);
                }
                RecordKind::Other | RecordKind::Failed if counted.count > 0 => {
                    *self.reasons.entry(reason(event)).or_default() += counted.count;
                }
                RecordKind::KvmPort => at(&mut addresses, Space::Port, event).kvm(event, *counted),
                RecordKind::KvmMmio => at(&mut addresses, Space::Mmio, event).kvm(event, *counted),
                RecordKind::KvmMsr => at(&mut addresses, Space::Msr, event).kvm(event, *counted),
                RecordKind::Exit if counted.count > 0 => {
                    let name = bpf.isa.map(|isa| exits::name(isa, event.address));
                    let by_vcpu = exits.entry(name.unwrap_or_default()).or_default();
                    *by_vcpu.entry(event.vcpu.into()).or_default() += counted.count;
                }
                RecordKind::Irqfd => irqfd(&mut irqfds, event, *counted),
                _ => {}
            }
        }
        self.addresses = named(addresses);
        let reason = |(name, by_vcpu)| Reason { name, by_vcpu };
        self.exits = exits.into_iter().map(reason).collect();
        self.exits
            .sort_by_key(|reason| std::cmp::Reverse(reason.count()));
        self.irqfds = irqfds
            .into_values()
            .filter(|irqfd: &Irqfd| irqfd.count > 0)
            .collect();
    }

    /// The share of EOIs that were a bit in memory; `None` if there were no EOIs, or if they are not counted.
    pub fn pv_eoi_share(&self) -> Option<f64> {
        let (all, pv) = (
            self.counts.get(&Metric::Eois)?,
            self.counts.get(&Metric::PvEois)?,
        );
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share is shown with two digits"
        )]
        (*all > 0).then(|| *pv as f64 / *all as f64)
    }
}

fn irqfd(irqfds: &mut BTreeMap<u64, Irqfd>, event: &CountedEvent, counted: CountedRecord) {
    let irqfd = irqfds.entry(event.address).or_insert(Irqfd {
        gsi: event.address,
        count: 0,
        by_worker: 0,
        first_signaller: None,
    });
    irqfd.count += counted.count;
    // Programs for irqfds write "by a worker" where other programs write the direction.
    if event.is_write {
        irqfd.by_worker += counted.count;
    }
    irqfd.first_signaller = irqfd.first_signaller.or_else(|| counted.thread());
}

fn reason(event: &CountedEvent) -> String {
    match event.kind {
        RecordKind::Failed => {
            // The error as 32 bits, negative.
            let error = u32::try_from(event.address)
                .unwrap_or(u32::MAX)
                .cast_signed();
            match error.unsigned_abs() {
                4 => "signal".to_owned(),
                other => format!("error {other}"),
            }
        }
        _ => match names::exit_reason(event.address) {
            Some(name) => name.to_owned(),
            None => format!("reason {}", event.address),
        },
    }
}

#[cfg(test)]
#[path = "model_test.rs"]
mod tests;
