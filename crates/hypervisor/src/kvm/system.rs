//! `/dev/kvm`: opens it, queries its features once, and derives from them which [`Capability`] this host has. The
//! thread that opens it does this; all guests share the answers.

use std::io;
use std::sync::Arc;

use kvm_bindings::{
    KVM_CAP_BINARY_STATS_FD, KVM_CAP_IMMEDIATE_EXIT, KVM_CAP_IOEVENTFD,
    KVM_CAP_IOEVENTFD_ANY_LENGTH,
};
use kvm_ioctls::Kvm;

use super::super::Error;
use super::arch;
use super::arch::host::{self, Host};
use super::doorbells::{self, NO_HYPERCALL_DOORBELLS};
use super::error::KvmError;
use super::forward;
use super::interrupts::NO_FORWARDED_LINES;
use crate::{Capability, Support};

/// The extensions that the backend needs on every architecture, and the first Linux version that has each.
const NEEDED: [(u32, &str, &str); 4] = [
    (KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD", "2.6.32"),
    (
        KVM_CAP_IOEVENTFD_ANY_LENGTH,
        "KVM_CAP_IOEVENTFD_ANY_LENGTH",
        "4.4",
    ),
    (KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT", "4.11"),
    (KVM_CAP_BINARY_STATS_FD, "KVM_CAP_BINARY_STATS_FD", "5.14"),
];

/// The open device.
#[derive(Debug)]
pub struct System {
    pub fd: Kvm,
    /// Size of a vCPU's mapping in bytes: the run page and the pages after it.
    pub run_size: usize,
    /// The signal that kicks vCPUs.
    pub kick_signal: libc::c_int,
    /// What KVM offers on this architecture.
    pub host: Host,
}

impl System {
    pub fn open(kick_signal: libc::c_int) -> Result<Self, Error> {
        let fd = Kvm::new().map_err(|error| why(io::Error::from_raw_os_error(error.errno())))?;
        let found = fd.get_api_version();
        if found != 12 {
            return Err(KvmError::Version { found }.into());
        }
        for (number, extension, since) in NEEDED.into_iter().chain(host::NEEDED) {
            if fd.check_extension_raw(number.into()) <= 0 {
                return Err(KvmError::Extension { extension, since }.into());
            }
        }
        let run_size = fd
            .get_vcpu_mmap_size()
            .map_err(Error::system("ask kvm for the size of a run page"))?;
        let host = Host::ask(&fd)?;
        Ok(Self {
            fd,
            run_size,
            kick_signal,
            host,
        })
    }
}

fn why(source: io::Error) -> KvmError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => KvmError::Missing { source },
        Some(libc::EACCES | libc::EPERM) => KvmError::Permission { source },
        _ => KvmError::Open { source },
    }
}

/// Returns whether the backend has `capability` here, and if not, why.
pub fn support(system: &Arc<System>, capability: Capability) -> Support {
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
        | Capability::HypercallExit => arch::host::support(system, capability),
        Capability::ForwardedInterrupts => forward::support(),
        Capability::ForwardedLines => no(NO_FORWARDED_LINES),
        Capability::HypercallDoorbell => no(NO_HYPERCALL_DOORBELLS),
        Capability::MixedGroups => doorbells::mixed_groups(system),
        Capability::PayloadDoorbell => doorbells::payloads(system),
        Capability::Int3Patching | Capability::JmpPatching => {
            no("guest code runs as it is and traps in the cpu")
        }
        Capability::RegisterExits => no("kvm answers for the registers that it knows"),
        Capability::SpinPolicy => no("a vcpu runs on the thread that answers its exits"),
    }
}
