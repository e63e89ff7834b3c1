//! `/dev/kvm`: opens it and queries its features once, on the thread that opens it; all guests share the answers.

use std::io;

use kvm_bindings::{
    KVM_CAP_BINARY_STATS_FD, KVM_CAP_IMMEDIATE_EXIT, KVM_CAP_IOEVENTFD,
    KVM_CAP_IOEVENTFD_ANY_LENGTH,
};
use kvm_ioctls::Kvm;

use super::super::Error;
use super::arch::host::{self, Host};
use super::error::KvmError;

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
