//! Who runs the guest: the traits that a backend implements, and what a guest leaves it for.
//!
//! [`Hypervisor`] makes a [`Vm`], a [`Vm`] makes [`Vcpu`]s, and each vCPU runs on the thread that
//! calls [`Vcpu::run`]. Every difference between backends is a [`Capability`], asked once.

mod bare;
mod capability;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for backends"))]
mod config;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for backends"))]
mod error;
mod events;
mod exit;
mod ioevents;
mod irqs;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for backends"))]
mod stage;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "for backends"))]
mod taken;

#[cfg(not(target_arch = "x86_64"))]
pub mod absent;
#[cfg(target_arch = "x86_64")]
pub mod kvm;
#[cfg(target_arch = "x86_64")]
pub mod usermode;
#[cfg(not(target_arch = "x86_64"))]
pub use absent as kvm;
#[cfg(not(target_arch = "x86_64"))]
pub use absent as usermode;

use std::fmt;

use vm_memory::GuestMemoryMmap;

pub use bare::{BareExit, BareKick, BareLoop};
pub use capability::{Capability, Support};
pub use config::{Containment, PatchMode, SpinPolicy, VmConfig};
pub use error::Error;
pub use events::{EventCounter, EventCounts};
pub use exit::{ExitCounts, Fault, VmEntry, VmExit};
pub use ioevents::IoEvents;
pub use irqs::{IrqTrigger, Irqs};

pub use crate::irq::Irqchip;

/// What an interrupt handler jumps to when it has done: `iretq`, in effect.
pub const INTERRUPT_RETURN: u64 = stub::layout::INTERRUPT_RETURN;

/// A backend.
pub trait Hypervisor {
    /// The virtual machines of this backend.
    type Vm: Vm;

    /// The backend's name as users type it: `kvm`, `usermode`.
    fn name(&self) -> &'static str;

    /// Whether this host lets the backend do `capability`, and if not, why.
    fn support(&self, capability: Capability) -> Support;

    /// Fails, with the reason, unless this host lets the backend do `capability`.
    fn require(&self, capability: Capability) -> Result<(), Error> {
        match self.support(capability) {
            Support::Yes => Ok(()),
            Support::No(reason) => Err(Error::Unsupported {
                backend: self.name(),
                capability,
                reason,
            }),
        }
    }

    /// Makes a guest with memory and no code.
    fn create_vm(&self, config: &VmConfig) -> Result<Self::Vm, Error>;

    /// A loop that measures the least that an exit to the VMM costs here. Needs
    /// [`Capability::BareLoop`].
    fn bare_loop(&self, exit: BareExit) -> Result<Box<dyn BareLoop>, Error>;
}

/// A guest: its memory and its vCPUs, its doorbells and its interrupts.
pub trait Vm: IoEvents + Irqs + 'static {
    /// The virtual CPUs of this backend.
    type Vcpu: Vcpu;

    /// Guest RAM.
    fn memory(&self) -> &GuestMemoryMmap;

    /// Takes the vCPU with this index, once.
    fn create_vcpu(&self, index: u32) -> Result<Self::Vcpu, Error>;

    /// Counts what happens to this guest on the calling thread and those that it starts from now on;
    /// of the vCPUs that have been made by now.
    fn count_events(&self) -> Box<dyn EventCounter>;

    /// Exits so far, over all vCPUs.
    fn exit_counts(&self) -> ExitCounts;

    /// Processes other than this one that the guest runs in: their CPU time is the guest's too.
    fn processes(&self) -> Vec<u32>;
}

/// A virtual CPU, owned by the one thread that runs it.
pub trait Vcpu: Send {
    /// Makes the vCPU leave the guest, from any thread.
    type Kick: Kick;

    /// Where the next [`run`](Self::run) starts. Allowed before the first run only.
    fn set_entry_point(&mut self, entry: EntryPoint) -> Result<(), Error>;

    /// Where this vCPU enters for an external interrupt, all vectors alike. Allowed before the first
    /// run only.
    ///
    /// On x86-64 the handler finds the vector as one 64-bit word at `[rsp]`, above it the processor's ordinary
    /// 64-bit frame (`rip`, `cs`, `rflags`, `rsp`, `ss`), and IF clear. It drops the vector and
    /// returns by a jump to [`INTERRUPT_RETURN`] with `rsp` at the frame. `cli`, `sti` and `hlt` are
    /// ordinary instructions.
    fn set_interrupt_handler(&mut self, pc: u64) -> Result<(), Error>;

    /// Enters the guest and returns when the guest leaves it.
    fn run(&mut self, entry: VmEntry) -> Result<VmExit, Error>;

    /// Whether a kick waits for the next [`run`](Self::run): that one leaves the guest at once. For a
    /// thread that has something else to do before.
    fn is_kicked(&self) -> bool;

    /// The handle that other threads kick this vCPU with.
    fn kick_handle(&self) -> Self::Kick;
}

/// Makes a vCPU leave the guest with [`VmExit::Kicked`].
pub trait Kick: Clone + Send + Sync + fmt::Debug + 'static {
    /// Asks once; a vCPU outside the guest answers on its next entry.
    fn kick(&self);
}

/// Where and how a vCPU starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPoint {
    /// 64-bit code with all memory below 4 GiB at its own address: how our guest programs start.
    Program {
        /// First instruction.
        pc: u64,
        /// Stack pointer.
        sp: u64,
        /// Its arguments, where the C ABI has the first two.
        arguments: [u64; 2],
    },
    /// As a Multiboot loader leaves it (Multiboot 0.6.96, 3.2): 32-bit code, no paging. Needs
    /// [`Capability::Kernels`].
    Multiboot {
        /// First instruction.
        pc: u32,
        /// The loader's magic number.
        magic: u32,
        /// Where the loader's information is.
        information: u32,
    },
    /// Waits until another vCPU starts it. Needs [`Capability::Kernels`] and an [`Irqchip`].
    Secondary,
}
