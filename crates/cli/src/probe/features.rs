//! Features of the kernel that this process can use. Each is tried, not derived from the kernel's version, because a
//! container may forbid what the kernel has.
#![allow(unsafe_code, reason = "bare system calls")]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit};

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

/// Limits and settings, as names and values.
pub(super) fn settings() -> Vec<(&'static str, String)> {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtualization = virtualization(&cpuinfo);
    let mut settings: Vec<_> = virtualization
        .map(|features| ("CPU's virtualization", features))
        .into_iter()
        .collect();
    settings.extend([
        (
            "open files",
            limit(Resource::Nofile, |files| files.to_string()),
        ),
        (
            "address space",
            limit(Resource::As, |bytes| format!("{} MiB", bytes >> 20)),
        ),
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
    ]);
    settings
}

/// The kernel's names for the features of a CPU's virtualization. `None` if /proc/cpuinfo does not list features of an
/// x86-64 CPU.
fn virtualization(cpuinfo: &str) -> Option<String> {
    // Those of SVM, and those of VMX before Linux 5.6, are among the CPU's other features.
    const AMONG_OTHERS: [&str; 25] = [
        "avic",
        "bus_lock_threshold",
        "decodeassists",
        "ept",
        "ept_ad",
        "flexpriority",
        "flushbyasid",
        "idle_hlt",
        "lbrv",
        "npt",
        "nrip_save",
        "pausefilter",
        "pfthreshold",
        "svm",
        "svm_lock",
        "tpr_shadow",
        "tsc_scale",
        "v_spec_ctrl",
        "v_vmsave_vmload",
        "vgif",
        "vmcb_clean",
        "vmx",
        "vnmi",
        "vpid",
        "x2avic",
    ];
    let words = |name: &str| {
        let line = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name);
        line.map(|(_, words)| words.split_whitespace().collect::<Vec<_>>())
    };
    let among_others = || {
        let mut features = words("flags")?;
        features.retain(|feature| AMONG_OTHERS.contains(feature));
        Some(features)
    };
    let features = words("vmx flags").or_else(among_others)?;
    Some(match features.is_empty() {
        true => "none".to_owned(),
        false => features.join(", "),
    })
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
    // SAFETY: the kernel only reads one u32 from `action`, which lives on this frame until the call
    // returns.
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
            // Without support in the CPU, the kernel has no key to allocate.
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

/// The soft and hard limit of a resource, formatted by `number`.
fn limit(resource: Resource, number: fn(u64) -> String) -> String {
    let Rlimit { current, maximum } = getrlimit(resource);
    let number = |value: Option<u64>| value.map_or_else(|| "unlimited".to_owned(), number);
    let (now, most) = (number(current), number(maximum));
    format!("{now}, may be raised to {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_of_vmx_and_those_of_svm_are_found() {
        let intel = "flags\t\t: fpu vmx\nvmx flags\t: ept vpid apicv posted_intr pml ple\n";
        let listed = "ept, vpid, apicv, posted_intr, pml, ple";
        let of = |cpuinfo| virtualization(cpuinfo).unwrap();
        assert_eq!(of(intel), listed);
        let older_kernel = "flags\t\t: fpu vmx lm tpr_shadow vnmi flexpriority ept vpid\n";
        let listed = "vmx, tpr_shadow, vnmi, flexpriority, ept, vpid";
        assert_eq!(of(older_kernel), listed);
        let amd = "flags\t\t: fpu svm lm npt svm_lock vmcb_clean avic idle_hlt\nbugs\t\t: none\n";
        assert_eq!(of(amd), "svm, npt, svm_lock, vmcb_clean, avic, idle_hlt");
        assert_eq!(of("flags\t\t: fpu\n"), "none");
    }

    #[test]
    fn an_arm64_cpu_lists_no_features_of_virtualization() {
        let cpuinfo = "processor\t: 0\nFeatures\t: fp asimd evtstrm\nCPU implementer\t: 0x41\n";
        assert_eq!(virtualization(cpuinfo), None);
    }
}
