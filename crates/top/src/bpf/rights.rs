//! Says in one line why the kernel does not allow the source `bpf`, and what to do about it.

use std::{fs, io};

use super::error::BpfError;
use super::syscall::Refused;

const CAP_SYS_ADMIN: u32 = 21;

const NOT_ROOT: &str = "it needs CAP_SYS_ADMIN: run as root, or once `setcap cap_sys_admin,cap_sys_ptrace,cap_dac_read_search,cap_syslog+ep vmbell`";
const LOCKED: &str =
    "the kernel's lockdown (confidentiality) forbids programs to read the kernel's memory";
const CONTAINER: &str =
    "bpf(2) is refused in spite of CAP_SYS_ADMIN: this is a container or a user namespace";
const FORBIDDEN: &str = "this host forbids programs at functions of its kernel (EPERM), in spite of CAP_SYS_ADMIN: a security module does that, or a sandbox";
const NAMESPACE: &str = "this is not the host's first PID namespace, so the kernel's process numbers are others: run it on the host";

/// The inode of the first PID namespace (PROC_PID_INIT_INO in Linux' `include/linux/proc_ns.h`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Replaces the verifier's message if there is none.
const SILENT: &str = "the verifier said nothing";

/// Checks what can be checked before the first system call.
pub(super) fn check() -> Result<(), BpfError> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !has_capability(&status, CAP_SYS_ADMIN) {
        return Err(BpfError::NotAllowed(NOT_ROOT));
    }
    match is_first_namespace() {
        true => Ok(()),
        false => Err(BpfError::NotAllowed(NAMESPACE)),
    }
}

/// Whether this process sees the same process numbers as the kernel.
fn is_first_namespace() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    namespace.as_os_str() == FIRST_NAMESPACE
}

/// Explains an error of the system call that all programs need.
pub(super) fn explain(source: io::Error) -> BpfError {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => BpfError::NotAllowed(CONTAINER),
        Some(libc::ENOSYS) => {
            BpfError::NotAllowed("this kernel has no bpf(2) (CONFIG_BPF_SYSCALL)")
        }
        _ => BpfError::System {
            what: "bpf(2) failed",
            source,
        },
    }
}

/// Explains an error of one program.
pub(super) fn explain_refused(refused: Refused) -> BpfError {
    let Refused { source, log } = refused;
    match last_words(&log) {
        SILENT if source.raw_os_error() == Some(libc::EPERM) => BpfError::NotAllowed(FORBIDDEN),
        // Only lockdown disables this helper.
        words if words.contains("bpf_probe_read_kernel") => BpfError::NotAllowed(LOCKED),
        words => BpfError::Refused {
            source,
            log: words.to_owned(),
        },
    }
}

/// The verifier's complaint: the last line before its statistics.
fn last_words(log: &str) -> &str {
    let mut lines = log.lines().map(str::trim);
    let words = lines.rfind(|line| !line.is_empty() && !line.starts_with("processed "));
    words.unwrap_or(SILENT)
}

fn has_capability(status: &str, capability: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_some_and(|set| set >> capability & 1 != 0)
}

#[cfg(test)]
#[path = "rights_test.rs"]
mod tests;
