//! `/dev/kvm` itself: opened, and asked once what it can do.

use std::io;
use std::sync::OnceLock;

use kvm_bindings::{
    CpuId, KVM_CAP_BINARY_STATS_FD, KVM_CAP_EXIT_HYPERCALL, KVM_CAP_IMMEDIATE_EXIT,
    KVM_CAP_IOEVENTFD, KVM_CAP_IOEVENTFD_ANY_LENGTH, KVM_CAP_SET_TSS_ADDR, KVM_MAX_CPUID_ENTRIES,
};
use kvm_ioctls::Kvm;

use super::super::{Error, Support};
use super::error::KvmError;

/// `KVM_HC_MAP_GPA_RANGE` of Linux `uapi/linux/kvm_para.h`: the only hypercall that can be sent on to
/// the VMM.
pub const HC_MAP_GPA_RANGE: u64 = 12;

/// What the backend rests on, and since when Linux has it.
const NEEDED: [(u32, &str, &str); 5] = [
    (KVM_CAP_SET_TSS_ADDR, "KVM_CAP_SET_TSS_ADDR", "2.6.24"),
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
    /// Everything that KVM can show a guest of this CPU.
    pub cpuid: CpuId,
    /// Bytes of a vCPU's run page and what follows it.
    pub run_size: usize,
    /// Whether a hypercall can reach the VMM.
    pub hypercall_exits: bool,
    /// Whether hypercalls work at all, once somebody has tried.
    pub hypercalls: OnceLock<Support>,
    /// Whether an interrupt is the guest's to end, once somebody has tried.
    pub ends_of_interrupts: OnceLock<Support>,
}

impl System {
    pub fn open() -> Result<Self, Error> {
        let fd = Kvm::new().map_err(|error| why(io::Error::from_raw_os_error(error.errno())))?;
        let found = fd.get_api_version();
        if found != 12 {
            return Err(KvmError::Version { found }.into());
        }
        for (number, extension, since) in NEEDED {
            if fd.check_extension_raw(number.into()) <= 0 {
                return Err(KvmError::Extension { extension, since }.into());
            }
        }
        let cpuid = fd
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(Error::system("ask kvm for the cpuid it supports"))?;
        let run_size = fd
            .get_vcpu_mmap_size()
            .map_err(Error::system("ask kvm for the size of a run page"))?;
        let kinds = fd.check_extension_raw(KVM_CAP_EXIT_HYPERCALL.into());
        Ok(Self {
            fd,
            cpuid,
            run_size,
            hypercall_exits: kinds & (1 << HC_MAP_GPA_RANGE) != 0,
            hypercalls: OnceLock::new(),
            ends_of_interrupts: OnceLock::new(),
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
