//! Features of the kernel that this process can use. Each is tried and not concluded from the kernel's
//! version, because a container may forbid what the kernel has.
#![allow(unsafe_code, reason = "bare system calls")]

use std::fs::OpenOptions;
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};

use vmbell_bench::host::line;
use vmbell_hypervisor::Support;

/// The features and whether this process can use them, in the order to print.
pub(super) fn features() -> Vec<(&'static str, Support)> {
    vec![
        ("/dev/kvm", opens("/dev/kvm")),
        ("VFIO containers", opens("/dev/vfio/vfio")),
        ("iommufd", opens("/dev/iommu")),
        ("seccomp filters", seccomp_action(libc::SECCOMP_RET_TRAP)),
        (
            "seccomp user notification",
            seccomp_action(libc::SECCOMP_RET_USER_NOTIF),
        ),
        ("protection keys (PKU)", protection_keys()),
        ("memfd with seals", memfd()),
    ]
}

/// Limits and settings, as names and texts.
pub(super) fn settings() -> Vec<(&'static str, String)> {
    vec![
        ("open files", open_files()),
        ("address space", address_space()),
        (
            "yama ptrace_scope",
            line("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_else(|| "no yama".to_owned()),
        ),
        (
            "no_new_privs",
            line("/proc/self/status")
                .and_then(|status| {
                    let line = status
                        .lines()
                        .find(|line| line.starts_with("NoNewPrivs:"))?;
                    Some(line.split_once(':')?.1.trim().to_owned())
                })
                .unwrap_or_else(|| "unknown".to_owned()),
        ),
    ]
}

fn answer(ok: bool) -> Support {
    if ok {
        Support::Yes
    } else {
        Support::No(io::Error::last_os_error().to_string())
    }
}

fn opens(path: &str) -> Support {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(_) => Support::Yes,
        Err(error) => Support::No(error.to_string()),
    }
}

fn seccomp_action(action: u32) -> Support {
    // SAFETY: the kernel reads one u32 from `action`, which lives on this frame through the call,
    // and changes nothing.
    answer(
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_ACTION_AVAIL,
                0,
                &raw const action,
            )
        } == 0,
    )
}

fn protection_keys() -> Support {
    // SAFETY: takes two numbers and touches no memory.
    let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
    if key < 0 {
        return match io::Error::last_os_error().raw_os_error() {
            // Without support in the CPU, the kernel has no key to give.
            Some(libc::ENOSPC | libc::EINVAL) => {
                Support::No("the CPU has none, or the kernel does not use them".to_owned())
            }
            _ => answer(false),
        };
    }
    // SAFETY: the key was allocated above and no mapping uses it.
    unsafe { libc::syscall(libc::SYS_pkey_free, key) };
    Support::Yes
}

fn memfd() -> Support {
    // SAFETY: the name is a C string constant; the kernel copies it.
    let fd = unsafe {
        libc::memfd_create(
            c"vmbell-probe".as_ptr(),
            libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
        )
    };
    if fd < 0 {
        return answer(false);
    }
    // SAFETY: the descriptor is new and it has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Support::Yes
}

fn open_files() -> String {
    limit(libc::RLIMIT_NOFILE, |value| value.to_string())
}

fn address_space() -> String {
    limit(libc::RLIMIT_AS, |bytes| format!("{} MiB", bytes >> 20))
}

/// The type of a resource's number, which each C library names in its own way.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// The limit of a resource and what it may be raised to, each in the words of `number`.
fn limit(resource: Resource, number: fn(libc::rlim_t) -> String) -> String {
    let limit = match read_limit(resource) {
        Ok(limit) => limit,
        Err(error) => return format!("unknown: {error}"),
    };
    let number = |value: libc::rlim_t| match value {
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        value => number(value),
    };
    let (now, most) = (number(limit.rlim_cur), number(limit.rlim_max));
    format!("{now}, may be raised to {most}")
}

fn read_limit(resource: Resource) -> io::Result<libc::rlimit> {
    // SAFETY: rlimit is made of integers, for which all zeros is a value.
    let mut limit: libc::rlimit = unsafe { mem::zeroed() };
    // SAFETY: `limit` is ours and lives through the call, which writes one rlimit.
    match unsafe { libc::getrlimit(resource, &raw mut limit) } {
        0 => Ok(limit),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What stands in the way of a backend that needs memory, if this process may map only so much.
pub(super) fn address_space_limit() -> Option<String> {
    let limit = read_limit(libc::RLIMIT_AS).ok()?.rlim_cur;
    (limit != libc::RLIM_INFINITY).then(|| {
        format!(
            "this process may map {} MiB only: raise the limit (ulimit -v unlimited)",
            limit >> 20
        )
    })
}
