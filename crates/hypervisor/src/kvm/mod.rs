//! The KVM backend: `/dev/kvm` of Linux 5.16 or newer on x86-64 and arm64.
//!
//! The kernel itself handles doorbells and interrupts: a write that an ioeventfd takes never reaches this
//! module, and the kernel raises the interrupts of irqfds. This module sets guests up (memory slots, interrupt
//! controllers, initial registers), keeps groups of doorbells, and translates exits (Linux
//! Documentation/virt/kvm/api.rst).
//!
//! A vCPU runs on the thread that calls [`KvmVcpu::run`](super::Vcpu::run). The module starts threads only for
//! relays (`relay.rs`), one for each set of group items that share one match, and one for each trial of a
//! capability, to end it.
//!
//! A vCPU is kicked by a signal of the process, `SIGRTMIN` unless [`Kvm::with_kick_signal`] names another. The first
//! vCPU installs a handler for it that does nothing, and fails with [`KvmError::KickSignal`] where the process has a
//! handler already. A thread that runs a vCPU must not block the signal.
//!
//! Code for one architecture is in a folder of its name, which is the module `arch`: `x86_64/`, `aarch64/`.
//!
//! ```no_run
//! use vmbell_hypervisor::kvm::{Kvm, KvmError};
//!
//! match Kvm::open() {
//!     Ok(_) => println!("this host has KVM"),
//!     Err(error) => match error.of_backend() {
//!         Some(KvmError::Missing { .. }) => println!("this host has no /dev/kvm"),
//!         _ => println!("{error}"),
//!     },
//! }
//! ```

#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
mod arch;
mod coalesced;
mod code;
mod doorbells;
mod error;
mod forward;
mod groups;
mod interrupts;
mod ioctl;
mod kick;
mod memory;
mod relay;
mod run_page;
mod statistics;
mod system;
mod vcpu;
mod vfio;
mod vm;

use std::sync::Arc;

use system::System;

use super::{Capability, Error, Hypervisor, Support, Vm, VmConfig};

pub use error::KvmError;
pub use forward::ForwardError;
pub use vcpu::KvmVcpu;
pub use vm::KvmVm;

/// The KVM backend: an open `/dev/kvm`.
#[derive(Clone, Debug)]
pub struct Kvm {
    system: Arc<System>,
}

impl Kvm {
    /// Opens `/dev/kvm` and checks that it has the extensions that the backend needs. The error is
    /// [`Error::Backend`] with a [`KvmError`], or [`Error::System`] if a later call to KVM fails.
    ///
    /// The first vCPU installs a handler for `SIGRTMIN`: see the [module](self).
    pub fn open() -> Result<Self, Error> {
        Self::with_kick_signal(kick::default_signal())
    }

    /// As [`open`](Self::open), for a program that handles `SIGRTMIN` itself: vCPUs are kicked by `signal`, a real-time
    /// signal (`SIGRTMIN` to `SIGRTMAX`) for which the program has no handler and installs none later.
    pub fn with_kick_signal(signal: i32) -> Result<Self, Error> {
        let system = Arc::new(System::open(signal)?);
        Ok(Self { system })
    }

    /// The reason of an [`open`](Self::open) error in a few words, if it is a common one: no device file, or no
    /// permission.
    pub fn everyday_reason(error: &Error) -> Option<&'static str> {
        match error.of_backend()? {
            KvmError::Missing { .. } => Some("there is no /dev/kvm"),
            KvmError::Permission { .. } => Some("no permission to open /dev/kvm"),
            _ => None,
        }
    }
}

impl Hypervisor for Kvm {
    fn name(&self) -> &'static str {
        "kvm"
    }

    fn support(&self, capability: Capability) -> Support {
        system::support(&self.system, capability)
    }

    fn create_vm(&self, config: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Ok(Arc::new(KvmVm::new(Arc::clone(&self.system), config)?))
    }
}
