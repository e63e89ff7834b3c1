//! The records in the maps: the layout of their bytes.
//!
//! The programs in `programs` write them in the kernel, at the offsets defined here. This process checks them when it
//! reads them, because a guest chooses the addresses and sizes in them.

use crate::names::Space;

/// Offsets in the key of a counter. A counter exists for each combination of VM, vCPU, kind, address and ioeventfd.
pub(super) mod counter {
    /// The address or number that an event is about.
    pub(crate) const ADDRESS: i16 = 0;
    /// The distance of the VM's page from a fixed kernel address. It only tells VMs apart.
    pub(crate) const VM: i16 = 8;
    /// The thread that created the VM. It tells a VM from an earlier one at the same address.
    pub(crate) const CREATOR: i16 = 12;
    /// The distance of the ioeventfd from the same fixed address, in words.
    pub(crate) const DEVICE: i16 = 16;
    /// The vCPU's number, in two bytes.
    pub(crate) const VCPU: i16 = 20;
    /// A [`super::RecordKind`].
    pub(crate) const KIND: i16 = 22;
    /// The size of an access in the upper seven bits; the lowest bit is set for a write.
    pub(crate) const ACCESS: i16 = 23;
}

/// Offsets in the key of a vCPU. The value is the vCPU's process and, in the lower half, its thread.
pub(super) mod vcpu {
    pub(crate) const VM: i16 = 0;
    pub(crate) const CREATOR: i16 = 4;
    pub(crate) const ID: i16 = 8;
}

/// Offsets in the value of a counter.
pub(super) mod counted {
    pub(crate) const COUNT: i16 = 0;
    pub(crate) const DETAIL: i16 = 8;
    pub(crate) const NANOSECONDS: i16 = 16;
    /// For a ring: the function that the kernel calls first when the eventfd is signalled; 0 if nothing waits for it.
    pub(crate) const WAITER: i16 = 24;
}

/// Offsets in the record of a vCPU that is in the VMM.
pub(super) mod away {
    /// When the vCPU left, in nanoseconds; 0 if it is not in the VMM.
    pub(crate) const SINCE: i16 = 0;
    /// The key of the counter for the vCPU's exit.
    pub(crate) const KEY: i16 = 8;
}

pub(super) const COUNTER_KEY: usize = 24;
pub(super) const COUNTER_VALUE: usize = 32;
pub(super) const VCPU_KEY: usize = 12;
pub(super) const VCPU_VALUE: usize = 8;
pub(super) const AWAY_VALUE: usize = 8 + COUNTER_KEY;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// `KVM_RUN` returned for an access to a port.
    Port = 1,
    /// `KVM_RUN` returned for an access to an address.
    Mmio = 2,
    /// `KVM_RUN` returned for an MSR.
    Msr = 3,
    /// `KVM_RUN` returned for another reason; the address is the reason.
    Other = 4,
    /// `KVM_RUN` failed; the address is the error.
    Failed = 5,
    /// A write signalled an ioeventfd.
    Ring = 6,
    /// An irqfd raised an interrupt; the address is the GSI.
    Irqfd = 7,
    /// The VMM sent a message; the address is its vector.
    Message = 8,
    /// A line was raised; the address is its GSI.
    Line = 9,
    /// A vCPU was woken or interrupted.
    Kick = 10,
    /// An interrupt ended.
    Eoi = 11,
    /// An interrupt ended through the guest's PV EOI bit in memory.
    PvEoi = 12,
    /// The guest exited; the address is the CPU's exit reason.
    Exit = 13,
    /// A device of KVM answered an access to a port.
    KvmPort = 14,
    /// A device of KVM answered an access to an address.
    KvmMmio = 15,
    /// KVM answered an access to an MSR.
    KvmMsr = 16,
}

impl RecordKind {
    const ALL: [Self; 16] = [
        Self::Port,
        Self::Mmio,
        Self::Msr,
        Self::Other,
        Self::Failed,
        Self::Ring,
        Self::Irqfd,
        Self::Message,
        Self::Line,
        Self::Kick,
        Self::Eoi,
        Self::PvEoi,
        Self::Exit,
        Self::KvmPort,
        Self::KvmMmio,
        Self::KvmMsr,
    ];

    fn of(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A VM as the kernel sees it. The value only tells VMs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelVm {
    pub(crate) page: u32,
    /// The thread that created the VM.
    pub creator: u32,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CountedEvent {
    /// The VM.
    pub vm: KernelVm,
    /// The vCPU's number; 0 for an event of the whole VM.
    pub vcpu: u16,
    /// What happened.
    pub kind: RecordKind,
    /// The address of the event; 0 if the kind has no address.
    pub address: u64,
    /// Whether the access was a write.
    pub is_write: bool,
    /// The size of the access in bytes; 0 if the kind has none, or if KVM did not check it.
    pub size: u8,
    /// Tells apart ioeventfds at one address.
    pub(crate) device: u32,
}

/// How often an event happened, and what was found out when it first happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedRecord {
    /// How often the event happened.
    pub count: u64,
    pub(crate) detail: u64,
    /// For an exit to the VMM: the total time until the vCPU was back.
    pub(crate) nanoseconds: u64,
    /// For a ring: the kernel function that waits for its eventfd.
    pub(crate) waiter: u64,
}

impl CountedEvent {
    /// Decodes a key; `None` if no program would write these bytes.
    pub(super) fn of(key: &[u8; COUNTER_KEY]) -> Option<Self> {
        let access = key[counter::ACCESS.unsigned_abs() as usize];
        Some(Self {
            vm: KernelVm {
                page: word(key, counter::VM),
                creator: word(key, counter::CREATOR),
            },
            vcpu: u16::try_from(number(key, counter::VCPU, 2)).ok()?,
            kind: RecordKind::of(key[counter::KIND.unsigned_abs() as usize])?,
            address: number(key, counter::ADDRESS, 8),
            is_write: access & 1 != 0,
            size: access >> 1,
            device: word(key, counter::DEVICE),
        })
    }
}

impl CountedRecord {
    /// The number of a ring's eventfd.
    pub(crate) fn eventfd(self) -> u32 {
        u32::try_from(self.detail & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// The bus of a ring, from Linux' `enum kvm_bus`.
    pub(crate) fn space(self) -> Space {
        match self.detail.to_le_bytes()[4] {
            0 | 3 => Space::Mmio,
            1 => Space::Port,
            other => Space::Bus(other),
        }
    }

    /// The thread that first signalled an irqfd; `None` for the kernel's idle thread.
    pub(crate) fn thread(self) -> Option<u32> {
        let thread = u32::try_from(self.detail & u64::from(u32::MAX)).ok()?;
        (thread != 0).then_some(thread)
    }

    pub(super) fn of(value: &[u8; COUNTER_VALUE]) -> Self {
        Self {
            count: number(value, counted::COUNT, 8),
            detail: number(value, counted::DETAIL, 8),
            nanoseconds: number(value, counted::NANOSECONDS, 8),
            waiter: number(value, counted::WAITER, 8),
        }
    }
}

/// A VM and the number of one of its vCPUs.
pub(super) fn vcpu_of(key: &[u8; VCPU_KEY]) -> (KernelVm, u32) {
    let vm = KernelVm {
        page: word(key, vcpu::VM),
        creator: word(key, vcpu::CREATOR),
    };
    (vm, word(key, vcpu::ID))
}

fn word(bytes: &[u8], at: i16) -> u32 {
    u32::try_from(number(bytes, at, 4)).unwrap_or(u32::MAX)
}

/// Reads a number of up to eight bytes in the machine's byte order, which BPF also uses.
fn number(bytes: &[u8], at: i16, size: usize) -> u64 {
    let at = at.unsigned_abs() as usize;
    let bytes = bytes[at..at + size].iter().rev();
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
