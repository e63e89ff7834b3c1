//! The addresses that a guest accesses, with what its accesses led to.

use std::collections::{BTreeMap, BTreeSet};

use crate::bpf::{CountedEvent, CountedRecord};
use crate::names::{self, Name, Space};
use crate::process::Holder;
use crate::waiters::Waiter;

/// An address that a guest accesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// The kind of address.
    pub space: Space,
    /// The address.
    pub address: u64,
    /// How often a vCPU returned to the VMM.
    pub to_vmm: u64,
    /// Nanoseconds from exits to the VMM until the vCPUs were back.
    pub vmm_time: u64,
    /// How often an ioeventfd was signalled.
    pub rings: u64,
    /// The number of accesses that KVM answered itself.
    pub by_kvm: u64,
    /// Whether accesses were writes, and their sizes in bytes; of all accesses since the BPF programs began to count,
    /// so that a register that is rarely read is not taken for a write-only one.
    pub accesses: BTreeSet<(bool, u8)>,
    /// The ioeventfds.
    pub eventfds: Vec<Eventfd>,
    /// The name of what is at the address.
    pub name: Option<Name>,
}

/// The eventfd of an ioeventfd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eventfd {
    /// The eventfd's number in the kernel.
    pub id: u32,
    /// Its lowest descriptor in the VMM's process, if it is still open there.
    pub fd: Option<u32>,
    /// The other processes that held the eventfd at its first signal, such as a vhost-user back end.
    pub holders: Vec<Holder>,
    /// What in the kernel waited for the eventfd at its first signal, such as vhost.
    pub waiter: Option<Waiter>,
}

impl Address {
    pub(crate) const fn new(space: Space, address: u64) -> Self {
        Self {
            space,
            address,
            to_vmm: 0,
            vmm_time: 0,
            rings: 0,
            by_kvm: 0,
            accesses: BTreeSet::new(),
            eventfds: Vec::new(),
            name: None,
        }
    }

    /// Whether KVM signals the address's eventfd without decoding the write (fast MMIO, on VMX): then no program sees
    /// the write's size.
    pub(crate) fn is_fast_mmio(&self) -> bool {
        self.space == Space::Mmio && self.rings > 0 && self.accesses.contains(&(true, 0))
    }

    /// Returns the number of accesses of all kinds.
    pub const fn count(&self) -> u64 {
        self.to_vmm + self.rings + self.by_kvm
    }

    /// Adds accesses that KVM answered.
    pub(crate) fn kvm(&mut self, event: &CountedEvent, counted: CountedRecord) {
        self.by_kvm += counted.count;
        self.accesses.insert((event.is_write, event.size));
    }

    /// Adds exits to the VMM.
    pub(crate) fn exit(&mut self, event: &CountedEvent, counted: CountedRecord) {
        self.vmm_time += counted.nanoseconds;
        self.to_vmm += counted.count;
        self.accesses.insert((event.is_write, event.size));
    }

    /// Adds signals of an ioeventfd; `eventfd` describes the one with a number.
    pub(crate) fn ring(
        &mut self,
        event: &CountedEvent,
        counted: CountedRecord,
        eventfd: impl Fn(u32) -> Eventfd,
    ) {
        self.rings += counted.count;
        // KVM's fast path does not check the size.
        self.accesses.insert((true, event.size));
        if counted.count == 0 {
            return;
        }
        let id = counted.eventfd();
        if self.eventfds.iter().all(|eventfd| eventfd.id != id) {
            self.eventfds.push(eventfd(id));
        }
    }
}

/// Returns the accessed addresses with their names, the most frequent first.
pub(crate) fn named(addresses: BTreeMap<(Space, u64), Address>) -> Vec<Address> {
    let mut addresses: Vec<Address> = addresses.into_values().collect();
    addresses.retain(|address| address.count() > 0);
    for address in &mut addresses {
        let writes = address.accesses.iter().filter(|(is_write, _)| *is_write);
        let mut writes: Vec<u8> = writes.map(|(_, size)| *size).collect();
        let has_reads = writes.len() != address.accesses.len();
        // KVM decodes only the first write to an ioeventfd that it signals by fast MMIO.
        if writes.len() > 1 && address.is_fast_mmio() {
            writes.retain(|size| *size != 0);
        }
        let writes = if has_reads { &[][..] } else { &writes };
        address.name = names::of(address.space, address.address, writes);
    }
    addresses.sort_by_key(|address| {
        let count = std::cmp::Reverse(address.count());
        (count, address.space, address.address)
    });
    addresses
}

/// The entry of an event's address.
pub(crate) fn at<'a>(
    addresses: &'a mut BTreeMap<(Space, u64), Address>,
    space: Space,
    event: &CountedEvent,
) -> &'a mut Address {
    let new = || Address::new(space, event.address);
    addresses.entry((space, event.address)).or_insert_with(new)
}
