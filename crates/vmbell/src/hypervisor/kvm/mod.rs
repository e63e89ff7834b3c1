//! The kernel's own virtualization: `/dev/kvm` of Linux 5.16 or newer on x86-64.
//!
//! The kernel does what this crate is about: a write that an ioeventfd takes never comes here, and an
//! irqfd needs nobody to inject it. What is left to this module is setting a guest up (memory slots,
//! interrupt controllers, the registers it starts with), groups of doorbells, and the exits
//! (Linux Documentation/virt/kvm/api.rst).
//!
//! A vCPU runs on whichever thread calls [`KvmVcpu::run`](super::Vcpu::run). The only thread of ours
//! is a relay's (`relay.rs`), for items of a group that share one match.
//!
//! What belongs to one architecture stands in a folder of its name: `x86_64/`.

#[path = "x86_64/mod.rs"]
mod arch;
mod coalesced;
mod doorbells;
mod error;
mod events;
mod groups;
mod interrupts;
mod ioctl;
mod kick;
mod memory;
mod relay;
mod run_page;
mod statistics;
mod support;
mod system;
mod vcpu;
mod vm;

pub use error::KvmError;
pub use kick::KvmKick;
pub use vcpu::KvmVcpu;
pub use vm::KvmVm;

use std::sync::Arc;

use super::{BareExit, BareLoop, Capability, Error, Hypervisor, Support, VmConfig};
use system::System;

/// The KVM backend.
#[derive(Clone, Debug)]
pub struct Kvm {
    system: Arc<System>,
}

impl Kvm {
    /// Opens `/dev/kvm` and checks that it can do what the backend rests on.
    pub fn open() -> Result<Self, Error> {
        let system = Arc::new(System::open()?);
        Ok(Self { system })
    }

    /// Why it did not open, in a few words, where that is an everyday reason.
    pub fn everyday_reason(error: &Error) -> Option<&'static str> {
        match error.of_backend()? {
            KvmError::Missing { .. } => Some("there is no /dev/kvm"),
            KvmError::Permission { .. } => Some("no permission to open /dev/kvm"),
            _ => None,
        }
    }
}

impl Hypervisor for Kvm {
    type Vm = KvmVm;

    fn name(&self) -> &'static str {
        "kvm"
    }

    fn support(&self, capability: Capability) -> Support {
        support::support(&self.system, capability)
    }

    fn create_vm(&self, config: &VmConfig) -> Result<KvmVm, Error> {
        KvmVm::new(Arc::clone(&self.system), config)
    }

    fn bare_loop(&self, exit: BareExit) -> Result<Box<dyn BareLoop>, Error> {
        let bare = arch::bare::Bare::new(Arc::clone(&self.system), exit)?;
        Ok(Box::new(bare))
    }
}
