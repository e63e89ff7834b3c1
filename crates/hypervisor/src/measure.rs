//! What a bench and tests ask of a guest's backend, beyond running the guest: counts of exits and of events by the
//! names of KVM's tracepoints, the processes whose CPU time is the guest's, and the minimum cost of an exit.
//!
//! The code in which an event happens counts it: the kernel, or the usermode engine. All of this can be asked on any
//! thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{fmt, io};

use super::{Error, Kick};

/// Measures a guest and its backend; see [`Vm::measure`](super::Vm::measure).
pub trait Measure {
    /// The number of exits so far, over all vCPUs.
    fn exit_counts(&self) -> ExitCounts;

    /// Counts the events of this guest on the calling thread and on the threads that it starts from now on, for
    /// the vCPUs that have been made by now.
    fn count_events(&self) -> Box<dyn EventCounter>;

    /// The numbers of the processes, other than this one, that run guest code: their CPU time belongs to the
    /// guest too.
    fn processes(&self) -> Vec<u32>;

    /// Coalesces the writes to `len` bytes from guest-physical `address`: they are kept back until the guest
    /// leaves for another reason or too many are kept, and then come as
    /// [`VmExit::MmioWrite`](super::VmExit::MmioWrite). Needs
    /// [`Capability::CoalescedMmio`](super::Capability::CoalescedMmio).
    fn register_coalesced(&self, address: u64, len: u32) -> Result<(), Error>;

    /// Makes a loop around the exits of a second guest of this backend, which only makes exits, without a bus or a
    /// device to answer them. Needs [`Capability::BareLoop`](super::Capability::BareLoop).
    fn bare_loop(&self, exit: BareExit) -> Result<Box<dyn BareLoop>, Error>;
}

/// How often a vCPU has left the guest's own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitCounts {
    /// Exits that were answered below the VMM, for example by a signal to a doorbell's eventfd; `None` if the backend
    /// cannot count them here ([`Capability::CountsLightExits`](super::Capability::CountsLightExits)).
    pub light: Option<u64>,
    /// Exits that the VMM answered.
    pub heavy: u64,
}

/// How often each event has happened, by its name, for example `kvm:kvm_exit`.
pub type EventCounts = BTreeMap<String, u64>;

/// Counts the events of one guest.
pub trait EventCounter: fmt::Debug + Send {
    /// The origin of the counts, for reports.
    fn source(&self) -> &str;

    /// The name of the event that counts exits.
    fn exits(&self) -> &str;

    /// The counts so far, including those of events that never happened.
    fn read(&mut self) -> io::Result<EventCounts>;
}

/// The kind of exit that the guest of a [`BareLoop`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareExit {
    /// `out` to a port.
    Pio,
    /// A store to an address without memory.
    Mmio,
    /// A store of four bytes that signals an eventfd, which no thread reads. The kernel answers it and the guest continues, so
    /// the guest leaves for the loop only once in a run.
    Ioeventfd,
}

/// The loop around a guest that only makes exits.
pub trait BareLoop: fmt::Debug {
    /// Runs until the guest has made this many exits, on the caller's thread. A kick is an error.
    fn run(&mut self, exits: u64) -> Result<(), Error>;

    /// A handle with which any thread can kick the loop's vCPU.
    fn kick_handle(&self) -> Arc<dyn Kick>;
}
