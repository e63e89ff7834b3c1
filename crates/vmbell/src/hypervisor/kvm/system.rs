//! `/dev/kvm`: opens it and asks once what it can do. The thread that opens it does this; all guests share the
//! answers.

use std::io;
use std::sync::OnceLock;

use kvm_bindings::{
    CpuId, KVM_CAP_BINARY_STATS_FD, KVM_CAP_EXIT_HYPERCALL, KVM_CAP_IMMEDIATE_EXIT,
    KVM_CAP_IOEVENTFD, KVM_CAP_IOEVENTFD_ANY_LENGTH, KVM_CAP_SET_TSS_ADDR, KVM_MAX_CPUID_ENTRIES,
};
use kvm_ioctls::Kvm;

use super::super::{Error, Support};
use super::error::KvmError;

/// `KVM_HC_MAP_GPA_RANGE` of Linux `uapi/linux/kvm_para.h`: the only hypercall that KVM can forward to the VMM.
pub const HC_MAP_GPA_RANGE: u64 = 12;

/// The extensions that the backend needs, and the Linux version that brought each.
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
    /// The CPUID that KVM supports on this CPU.
    pub cpuid: CpuId,
    /// Size of a vCPU's mapping in bytes: the run page and the pages behind it.
    pub run_size: usize,
    /// Whether KVM can forward a hypercall to the VMM.
    pub hypercall_exits: bool,
    /// Whether the hypercall instruction works, once a trial was made.
    pub hypercalls: OnceLock<Support>,
    /// Whether an interrupt stays in service until the guest's EOI, once a trial was made.
    pub ends_of_interrupts: OnceLock<Support>,
    /// Whether the kernel's statistics count light exits, once a trial was made.
    pub light_exits: OnceLock<Support>,
    /// Whether ring 0 runs on the CPU, once a trial was made.
    pub native_kernel_mode: OnceLock<Support>,
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
            light_exits: OnceLock::new(),
            native_kernel_mode: OnceLock::new(),
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
