//! The seccomp programs of the sandbox's threads.
//!
//! A vCPU's program checks the instruction pointer first. A system call from the guest's addresses is a trap
//! (SECCOMP_RET_TRAP), whatever its number and architecture. The stub's own system calls are allowed by number and
//! arguments, and any other call kills the process. seccompiler generates the rules for arguments; the tests that it
//! cannot express are written by hand before them. Both must be one program: if a thread has two programs, the kernel
//! uses the more severe verdict, so a trap would lose to a kill.

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, Ge, Le, Lt, Ne};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use stub::layout::{
    FD_BASE, FILTER_MAX, Filter, PARK_SYSCALL, SHARED_BASE, STUB_BASE, STUB_SIZE, SharedState,
};

use super::error::UsermodeError;
use vmbell_hypervisor::Error;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

// Offsets in `struct seccomp_data` (Linux `uapi/linux/seccomp.h`).
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const INSTRUCTION_POINTER_LOW: u32 = 8;
const INSTRUCTION_POINTER_HIGH: u32 = 12;

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

const fn op(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Placeholder for the sandbox's process id, which is not known before the sandbox runs: the stub replaces it. No
/// process has an id this high (Linux `PID_MAX_LIMIT` is 2^22).
const OWN_PID_PLACEHOLDER: u32 = 0x7fff_5a5a;

/// Builds a vCPU's program. It allows a `write` of 8 bytes to a descriptor from FD_BASE on, futex calls in the shared
/// memory, and `exit_group`. With `interrupts` it also allows `epoll_wait` on a descriptor from FD_BASE on, and the
/// interrupt signal (SIGUSR2) to threads of the sandbox itself, except the descriptor thread, whose id is the process
/// id.
pub fn vcpu_program(fd_limit: u32, interrupts: bool) -> Result<BpfProgram, Error> {
    let shared_end = SHARED_BASE + size_of::<SharedState>() as u64;
    let mut rules = vec![
        (
            libc::SYS_write,
            vec![vec![
                (0, Dword, Ge, u64::from(FD_BASE)),
                (0, Dword, Lt, u64::from(fd_limit)),
                (2, Qword, Eq, 8),
            ]],
        ),
        (
            libc::SYS_futex,
            // FUTEX_WAIT and FUTEX_WAKE, without a time-out.
            vec![vec![
                (0, Qword, Ge, SHARED_BASE),
                (0, Qword, Lt, shared_end),
                (1, Dword, Le, 1),
                (3, Qword, Eq, 0),
            ]],
        ),
        (libc::SYS_exit_group, vec![]),
    ];
    if interrupts {
        let interrupt = u64::from(libc::SIGUSR2.cast_unsigned());
        let own = u64::from(OWN_PID_PLACEHOLDER);
        let rule = vec![vec![
            (0, Qword, Eq, own),
            // Dword: the kernel takes only the low half of the argument as the thread number.
            (1, Dword, Ne, own),
            (2, Dword, Eq, interrupt),
        ]];
        rules.push((libc::SYS_tgkill, rule));
        // A halted vCPU sleeps in epoll_wait, for at most one event. The kernel can write that event only to memory of
        // the sandbox.
        let descriptor = [
            (0, Dword, Ge, u64::from(FD_BASE)),
            (0, Dword, Lt, u64::from(fd_limit)),
        ];
        let rule = descriptor.into_iter().chain([(2, Dword, Eq, 1)]);
        rules.push((libc::SYS_epoll_wait, vec![rule.collect()]));
    }
    let arguments = allow_only("a vcpu", rules)?;
    // Guest addresses are below 4 GiB, so the upper half of the instruction pointer is 0 in guest code.
    let mut program = vec![
        op(LOAD, 0, 0, INSTRUCTION_POINTER_HIGH),
        op(JUMP_IF_EQUAL, 0, 1, 0),
        op(RETURN, 0, 0, libc::SECCOMP_RET_TRAP),
    ];
    program.extend(arguments);
    Ok(program)
}

/// Builds the descriptor thread's first program: it reports the parked system call to the listener and allows all other
/// calls, which the rest of the thread's start needs.
pub fn user_notif_program() -> BpfProgram {
    vec![
        op(LOAD, 0, 0, ARCHITECTURE),
        op(JUMP_IF_EQUAL, 0, 3, AUDIT_ARCH_X86_64),
        op(LOAD, 0, 0, NUMBER),
        op(JUMP_IF_EQUAL, 0, 1, PARK_SYSCALL),
        op(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Builds the descriptor thread's second program: it allows only `pause` and `exit_group`, and only from the stub's
/// code.
pub fn park_program() -> Result<BpfProgram, Error> {
    const _: () = assert!(STUB_BASE & 0xffff_ffff == 0 && STUB_SIZE < 1 << 32);
    let calls = allow_only(
        "the descriptor thread",
        vec![(libc::SYS_pause, vec![]), (libc::SYS_exit_group, vec![])],
    )?;
    let mut program = vec![
        op(LOAD, 0, 0, INSTRUCTION_POINTER_HIGH),
        op(JUMP_IF_EQUAL, 0, 2, (STUB_BASE >> 32) as u32),
        op(LOAD, 0, 0, INSTRUCTION_POINTER_LOW),
        op(JUMP_IF_AT_LEAST, 0, 1, (STUB_SIZE & 0xffff_ffff) as u32),
        op(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    program.extend(calls);
    Ok(program)
}

/// A condition on an argument: its number, its width, the comparison and the value.
type Condition = (u8, SeccompCmpArgLen, SeccompCmpOp, u64);

fn allow_only(
    thread: &'static str,
    rules: Vec<(libc::c_long, Vec<Vec<Condition>>)>,
) -> Result<BpfProgram, Error> {
    let filter = |source| Error::from(UsermodeError::Filter { thread, source });
    let mut map = std::collections::BTreeMap::new();
    for (number, alternatives) in rules {
        let mut chains = Vec::new();
        for conditions in alternatives {
            let conditions = conditions
                .into_iter()
                .map(|(argument, width, comparison, value)| {
                    SeccompCondition::new(argument, width, comparison, value)
                })
                .collect::<Result<_, _>>()
                .map_err(filter)?;
            chains.push(SeccompRule::new(conditions).map_err(filter)?);
        }
        map.insert(number, chains);
    }
    SeccompFilter::new(
        map,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        TargetArch::x86_64,
    )
    .and_then(TryInto::try_into)
    .map_err(filter)
}

/// Packs a program for the control page and records the instructions that hold [`OWN_PID_PLACEHOLDER`]. Fails if the
/// program is too long.
pub fn pack(thread: &'static str, program: &[sock_filter]) -> Result<Filter, Error> {
    if program.len() > FILTER_MAX {
        let (len, limit) = (program.len(), FILTER_MAX);
        return Err(UsermodeError::FilterTooLong { thread, len, limit }.into());
    }
    let own = program
        .iter()
        .enumerate()
        .filter(|(_, op)| op.k == OWN_PID_PLACEHOLDER);
    let mut filter = Filter {
        len: program.len() as u64,
        own_pid_operands: own.fold(0, |places, (place, _)| places | 1 << place),
        code: [0; FILTER_MAX],
    };
    for (word, instruction) in filter.code.iter_mut().zip(program) {
        *word = u64::from(instruction.code)
            | u64::from(instruction.jt) << 16
            | u64::from(instruction.jf) << 24
            | u64::from(instruction.k) << 32;
    }
    Ok(filter)
}

#[cfg(test)]
#[path = "filter_test.rs"]
mod tests;
