//! The KVM backend: `/dev/kvm` of Linux 5.16 or newer on x86-64 and arm64.
//!
//! The kernel handles doorbells and interrupts itself: a write that matches an ioeventfd never reaches this module, and
//! the kernel raises the interrupts of irqfds. This module sets up guests (memory slots, interrupt controllers, initial
//! registers), manages groups of doorbells, and translates exits (Linux Documentation/virt/kvm/api.rst).
//!
//! A vCPU runs on the thread that calls [`KvmVcpu::run`](super::Vcpu::run). The module itself starts threads for only
//! two purposes: one thread per guest for its relays (`relay.rs`), and one for each trial of a capability, to end the
//! trial.
//!
//! A signal of the process kicks vCPUs: `SIGRTMIN`, unless [`Kvm::with_kick_signal`] names another. Creating the first
//! vCPU installs a handler that does nothing, and fails with [`KvmError::KickSignal`] if the process already has its
//! own handler. A thread that runs a vCPU must not block the signal.
//!
//! Code for one architecture is in the folder with its name, which is the module `arch`: `x86_64/`, `aarch64/`.
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
mod guest;
mod interrupts;
mod ioctl;
mod kick;
mod measure;
mod memory;
mod relay;
mod routes;
mod run_page;
mod statistics;
mod system;
mod vcpu;
mod vfio;
mod vm;

use std::sync::Arc;

use arch::support;
use doorbells::NO_HYPERCALL_DOORBELLS;
use interrupts::NO_FORWARDED_LINES;
use system::System;

use super::{Capability, Error, Hypervisor, Support, Vm, VmConfig};

pub use error::{ForwardError, KvmError};
pub use vcpu::KvmVcpu;
pub use vm::KvmVm;

/// The KVM backend: an open `/dev/kvm`.
#[derive(Clone, Debug)]
pub struct Kvm {
    system: Arc<System>,
}

impl Kvm {
    /// Opens `/dev/kvm` and checks that KVM has the extensions that the backend needs. The error is [`Error::Backend`]
    /// with a [`KvmError`], or [`Error::System`] if a later call to KVM fails.
    ///
    /// The first vCPU installs a handler for `SIGRTMIN`: see the [module](self).
    pub fn open() -> Result<Self, Error> {
        Self::with_kick_signal(kick::default_signal())
    }

    /// Like [`open`](Self::open), for a program that handles `SIGRTMIN` itself: vCPUs are kicked by `signal`, a
    /// real-time signal (`SIGRTMIN` to `SIGRTMAX`) for which the program never installs a handler.
    pub fn with_kick_signal(signal: i32) -> Result<Self, Error> {
        let system = Arc::new(System::open(signal)?);
        Ok(Self { system })
    }

    /// Returns the reason of an [`open`](Self::open) error in a few words, if it is a common reason: no device file, or
    /// no permission.
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
        let no = |reason: &str| Support::No(reason.to_owned());
        match capability {
            Capability::Run
            | Capability::MmioDoorbell
            | Capability::DoorbellGroups
            | Capability::SilentSaturation
            | Capability::CoalescedMmio
            | Capability::BareLoop
            | Capability::MovableDeviceMemory => Support::Yes,
            Capability::PioDoorbell
            | Capability::KernelPort
            | Capability::Kernels
            | Capability::Virtualization
            | Capability::Interrupts
            | Capability::Messages
            | Capability::CountsLightExits
            | Capability::NativeKernelMode
            | Capability::EndOfInterrupt
            | Capability::HypercallInstruction
            | Capability::HypercallExit
            | Capability::Snapshots => support::support(&self.system, capability),
            Capability::ForwardedInterrupts => forward::support(),
            Capability::ForwardedLines => no(NO_FORWARDED_LINES),
            Capability::HypercallDoorbell => no(NO_HYPERCALL_DOORBELLS),
            Capability::MixedGroups => doorbells::mixed_groups(&self.system),
            Capability::PayloadDoorbell => doorbells::payloads(&self.system),
            Capability::Int3Patching | Capability::JmpPatching => {
                no("guest code runs as it is and traps in the cpu")
            }
            Capability::RegisterExits => no("kvm answers for the registers that it knows"),
            Capability::SpinPolicy => no("a vcpu runs on the thread that answers its exits"),
        }
    }

    fn create_vm(&self, config: &VmConfig) -> Result<Arc<dyn Vm>, Error> {
        Ok(Arc::new(KvmVm::new(Arc::clone(&self.system), config)?))
    }
}
