//! Compiles a thread's rules to a BPF program.
//!
//! seccompiler compares a call's number with those of the rules one after another, so `ioctl(KVM_RUN)`, which a vCPU
//! makes at each exit, is tested first, by hand-written instructions. One other call is also tested here: `clone3`
//! fails with ENOSYS, so that glibc falls back to `clone`, whose flags a filter can see.

use anyhow::Result;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, sock_filter};

use super::ioctl::KVM_RUN;
use super::policy::ThreadPolicy;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

// Offsets in `struct seccomp_data` (Linux `uapi/linux/seccomp.h`); an ioctl's request is the low half of its second
// argument.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const REQUEST: u32 = if cfg!(target_endian = "little") {
    24
} else {
    28
};

// Linux `uapi/linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const NATIVE: (u32, TargetArch) = (0xc000_003e, TargetArch::x86_64);
#[cfg(target_arch = "aarch64")]
const NATIVE: (u32, TargetArch) = (0xc000_00b7, TargetArch::aarch64);

const fn op(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Compiles a policy: denied calls raise SIGSYS, and calls of another architecture kill the process.
pub(super) fn compile(policy: ThreadPolicy) -> Result<BpfProgram> {
    let (native, arch) = NATIVE;
    let (ioctl, clone3) = (number(libc::SYS_ioctl), number(libc::SYS_clone3));
    let no_such_call = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    // Calls that are not decided here go on to the rules, which test the architecture again.
    let mut program = if policy.runs_vcpu {
        vec![
            op(LOAD, 0, 0, ARCHITECTURE),
            op(JUMP_IF_EQUAL, 0, 7, native),
            op(LOAD, 0, 0, NUMBER),
            op(JUMP_IF_EQUAL, 0, 3, ioctl),
            op(LOAD, 0, 0, REQUEST),
            op(JUMP_IF_EQUAL, 0, 3, KVM_RUN),
            op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
            op(JUMP_IF_EQUAL, 0, 1, clone3),
            op(RETURN, 0, 0, no_such_call),
        ]
    } else {
        Vec::new()
    };
    let rules = SeccompFilter::new(
        policy.rules,
        SeccompAction::Trap,
        SeccompAction::Allow,
        arch,
    )?;
    program.extend(BpfProgram::try_from(rules)?);
    Ok(program)
}

/// The number of a system call as a filter sees it.
fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}
