//! Whose threads were counted: makes of the events of threads those of VMs, as programs count them.
//!
//! KVM's statistics name the threads of each VM's vCPUs. Without them, or where they name no threads, all threads of a process are
//! taken for those of one VM, and numbers of vCPUs are not known. What a thread did since the reading before is added to the VM
//! that it runs now, so a thread may run one VM after another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use super::triggers::{ThreadEvent, Traced};
use crate::bpf::{BpfReading, Event, KernelVm};
use crate::counters::{Directory, Statistics};
use crate::process;

/// In place of the page of a VM of which only the process is known.
const ONLY_PROCESS: u32 = u32::MAX;

/// The vCPU that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    vm: KernelVm,
    id: Option<u32>,
    process: u32,
    /// When the thread started. A later one may get its number.
    started: u64,
}

/// The owners of threads, and what was counted of VMs until the last reading.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// A thread's owner is kept after its end, until the VM is forgotten.
    threads: HashMap<u32, Owner>,
    /// What the kernel has counted, which does not forget.
    traced: HashMap<ThreadEvent, u64>,
    /// The rests without an address, by the last reading.
    rests: HashMap<ThreadEvent, u64>,
    counts: HashMap<Event, u64>,
    vcpus: HashMap<(KernelVm, u32), (u32, u32)>,
    /// Events of threads that started and ended between two readings.
    lost: u64,
}

impl Owners {
    pub(super) fn add_to(
        &mut self,
        events: &mut BpfReading,
        traced: &Traced,
        proc: &Path,
        counters: Option<&BTreeMap<Directory, Statistics>>,
    ) {
        let named = Named::new(events, proc, counters);
        let threads: BTreeSet<u32> = traced.counts.keys().map(|event| event.thread).collect();
        for thread in threads {
            if let Some(started) = process::started(proc, thread)
                && let Some(process) = process::of_thread(proc, thread)
            {
                self.learn(thread, named.owner(thread, process, started));
            }
        }
        for (event, count) in &traced.counts {
            self.count(event, *count);
        }
        for (event, count) in &self.counts {
            events.counts.entry(*event).or_default().count += count;
        }
        events.vcpus.extend(&self.vcpus);
        events.lost += traced.lost + self.lost;
    }

    /// A thread that lives has this owner.
    fn learn(&mut self, thread: u32, owner: Owner) {
        let known = self.threads.entry(thread).or_insert(owner);
        // A folder of statistics is gone before its process is.
        if known.started != owner.started || owner.vm.page != ONLY_PROCESS {
            *known = owner;
        }
        if let Some(id) = known.id {
            let vcpu = (known.vm, id);
            self.vcpus.insert(vcpu, (known.process, thread));
        }
    }

    /// A thread did something this number of times in all.
    fn count(&mut self, event: &ThreadEvent, mut count: u64) {
        if event.is_rest() {
            // A thread that is stopped between its exit and the synthetic event is in the rest of one reading, but not of two.
            // Accesses of other threads are read after their exits, so a rest may seem to be less than before.
            let last = self.rests.insert(*event, count).unwrap_or_default();
            count = count.min(last);
        }
        let before = self.traced.entry(*event).or_default();
        let new = count.saturating_sub(*before);
        *before += new;
        if new == 0 {
            return;
        }
        let Some(owner) = self.threads.get(&event.thread) else {
            self.lost += new;
            return;
        };
        let id = owner.id.and_then(|id| u16::try_from(id).ok());
        let of_vm = Event {
            vm: owner.vm,
            vcpu: event.vcpu.or(id).unwrap_or_default(),
            kind: event.kind,
            address: event.address,
            is_write: event.is_write,
            size: event.size,
            device: 0,
        };
        *self.counts.entry(of_vm).or_default() += new;
    }

    /// VMs with the processes that run them.
    pub(super) fn creators(&self) -> impl Iterator<Item = (u32, u32)> {
        let owners = self.threads.values();
        owners.map(|owner| (owner.vm.creator, owner.process))
    }

    pub(super) fn forget(&mut self, ended: &BTreeSet<KernelVm>) {
        self.threads.retain(|_, owner| !ended.contains(&owner.vm));
        self.counts.retain(|event, _| !ended.contains(&event.vm));
        self.vcpus.retain(|(vm, _), _| !ended.contains(vm));
    }
}

/// The threads that programs and statistics name, with their VM and their number.
struct Named {
    threads: HashMap<u32, (KernelVm, u32)>,
    /// The VM of each process that has one folder of statistics.
    only: HashMap<u32, Option<KernelVm>>,
}

impl Named {
    fn new(
        events: &BpfReading,
        proc: &Path,
        counters: Option<&BTreeMap<Directory, Statistics>>,
    ) -> Self {
        let mut named = Self {
            threads: HashMap::new(),
            only: HashMap::new(),
        };
        for (directory, statistics) in counters.into_iter().flatten() {
            // A later VM may get the descriptor of an earlier one.
            let inode = directory.inode % u64::from(ONLY_PROCESS);
            let vm = KernelVm {
                page: u32::try_from(inode).unwrap_or_default(),
                creator: directory.creator,
            };
            for (id, thread) in &statistics.vcpus {
                named.threads.insert(*thread, (vm, *id));
            }
            if let Some(process) = process::of_thread(proc, directory.creator) {
                let only = named.only.entry(process).or_insert(Some(vm));
                *only = only.filter(|only| *only == vm);
            }
        }
        for ((vm, id), (_, thread)) in &events.vcpus {
            named.threads.insert(*thread, (*vm, *id));
        }
        named
    }

    fn owner(&self, thread: u32, process: u32, started: u64) -> Owner {
        let only_process = KernelVm {
            page: ONLY_PROCESS,
            creator: process,
        };
        let (vm, id) = match self.threads.get(&thread) {
            Some((vm, id)) => (*vm, Some(*id)),
            None => {
                let only = self.only.get(&process).copied().flatten();
                (only.unwrap_or(only_process), None)
            }
        };
        Owner {
            vm,
            id,
            process,
            started,
        }
    }
}

#[cfg(test)]
#[path = "owners_test.rs"]
mod tests;
