//! The engine for hosts with no `/dev/kvm`: guest code runs natively, in ring 3 of a sandbox process.
//!
//! A *monitor* (the process that uses this module) and one *sandbox* process for each guest, with
//! a thread for each vCPU. Port I/O, stores to memory holes, `hlt` and MSR accesses fault; the
//! [`stub`] in the sandbox catches the signal and does what KVM does in the kernel: it looks the
//! write up in the doorbell table and signals the eventfd itself (light), or hands the exit over
//! through a page of shared memory (heavy). The stub is not trusted: the monitor reads what the
//! sandbox can write once, and checks it.
//!
//! A guest with an [`Irqchip`](super::Irqchip) has local APICs, answered in the stub, and `hlt` waits
//! there; `Full` adds an I/O APIC in the monitor, and no PIC and no timer with it.
//!
//! [`UsermodeVcpu::run`](super::Vcpu::run) runs on the caller's thread, one for each vCPU. Threads of ours
//! besides: one that starts all sandboxes, for each sandbox one that waits for its end, and for each guest
//! with irqfds one that waits for those.

mod descriptors;
mod doorbells;
mod ending;
mod error;
mod eventfd;
mod events;
mod filter;
mod halt;
mod irqchip;
mod launch;
mod listener;
mod mapping;
mod patch;
mod probe;
mod process;
mod removal;
mod revocation;
mod sandbox;
mod stop;
mod thread;
mod vcpu;
mod vm;
mod wait;

pub use error::UsermodeError;
pub use vcpu::{UsermodeKick, UsermodeVcpu};
pub use vm::UsermodeVm;

use super::{BareExit, BareLoop, Capability, Error, Hypervisor, Support, VmConfig};

/// The usermode backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usermode;

impl Hypervisor for Usermode {
    type Vm = UsermodeVm;

    fn name(&self) -> &'static str {
        "usermode"
    }

    fn support(&self, capability: Capability) -> Support {
        probe::support(capability)
    }

    fn create_vm(&self, config: &VmConfig) -> Result<UsermodeVm, Error> {
        UsermodeVm::new(config)
    }

    fn bare_loop(&self, _exit: BareExit) -> Result<Box<dyn BareLoop>, Error> {
        Err(probe::unsupported(Capability::BareLoop))
    }
}
