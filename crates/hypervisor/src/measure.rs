//! What the bench and tests ask a guest's backend, apart from running the guest: counts of exits and of events, and the
//! processes whose CPU time belongs to the guest.
//!
//! The kernel or the usermode backend counts each event where it happens. All functions may be called on any thread.
//!
//! ```
//! use vmbell_hypervisor::{Error, Vcpu, Vm, VmEntry};
//!
//! /// The number of exits to the VMM before this run of the guest ends.
//! fn exits(vm: &dyn Vm, vcpu: &mut dyn Vcpu) -> Result<u64, Error> {
//!     let before = vm.measure().exit_counts().heavy;
//!     vcpu.run(VmEntry::Resume)?;
//!     Ok(vm.measure().exit_counts().heavy - before)
//! }
//! ```

use std::collections::BTreeMap;
use std::io;

use super::error::Error;

/// Measures a guest and its backend; see [`Vm::measure`](super::Vm::measure).
pub trait Measure {
    /// Returns the number of exits so far, over all vCPUs.
    fn exit_counts(&self) -> ExitCounts;

    /// Returns the counts of the guest's events so far, over all vCPUs; an event that never happened has count 0.
    fn events(&self) -> io::Result<EventCounts>;

    /// Describes what [`events`](Self::events) counts.
    fn event_source(&self) -> EventSource;

    /// Returns the ids of the processes, other than this one, that run guest code. Their CPU time also belongs to the
    /// guest.
    fn processes(&self) -> Vec<u32>;

    /// Coalesces the writes to `len` bytes from guest-physical `address`. They are buffered until the guest exits for
    /// another reason or the buffer is full, and are then returned as [`VmExit::MmioWrite`](super::VmExit::MmioWrite).
    /// Needs [`Capability::CoalescedMmio`](super::Capability::CoalescedMmio).
    fn register_coalesced(&self, address: u64, len: u32) -> Result<(), Error>;
}

/// How often a vCPU has left the guest's own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCounts {
    /// The number of exits that were answered below the VMM, for example by a signal to a doorbell's eventfd; `None` if
    /// the backend cannot count them here ([`Capability::CountsLightExits`](super::Capability::CountsLightExits)).
    pub light: Option<u64>,
    /// The number of exits that the VMM answered.
    pub heavy: u64,
}

/// How often each event has happened, by its name, for example `kvm:kvm_exit`.
pub type EventCounts = BTreeMap<String, u64>;

/// Describes the event counts of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventSource {
    /// The origin of the counts, for reports.
    pub name: &'static str,
    /// The name of the event that counts exits.
    pub exits: &'static str,
    /// Whether the guest runs on threads of this process, so that KVM's tracepoints count its events in more detail.
    pub has_tracepoints: bool,
}

impl EventSource {
    /// For backends: makes a description.
    pub const fn new(name: &'static str, exits: &'static str, has_tracepoints: bool) -> Self {
        Self {
            name,
            exits,
            has_tracepoints,
        }
    }
}
