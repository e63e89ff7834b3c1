//! Makes a thread of another process make a system call, as if a guest had taken it over.
#![allow(unsafe_code, reason = "ptrace")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;

/// The length of the instruction `syscall`, and its bytes.
const LEN: u64 = 2;
const SYSCALL: libc::c_long = 0x050f;

/// Stops the thread, sets its registers so that it makes a call, and resumes it. Returns false and changes nothing if
/// the thread was not in a system call, whose instruction it would execute again.
pub fn make(thread: i32, number: libc::c_long, arguments: [u64; 6]) -> bool {
    // SAFETY: PTRACE_SEIZE and PTRACE_INTERRUPT take no pointers.
    check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, 0, 0) });
    // SAFETY: as above.
    check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, thread, 0, 0) });
    // SAFETY: no pointer: the status is not asked for.
    check(unsafe { libc::waitpid(thread, null_mut(), libc::__WALL) }.into());
    // SAFETY: the structure is made of integers, for which all zeros is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills `registers`, which outlives it.
    check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, thread, 0, &raw mut registers) });
    registers.rip -= LEN;
    // SAFETY: the address is one of the stopped thread, of which the call reads a word.
    let code = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, thread, registers.rip, 0) };
    let is_in_call = code & 0xffff == SYSCALL;
    if is_in_call {
        registers.rax = number.cast_unsigned();
        // Otherwise the kernel might restart the interrupted call.
        registers.orig_rax = u64::MAX;
        [
            registers.rdi,
            registers.rsi,
            registers.rdx,
            registers.r10,
            registers.r8,
            registers.r9,
        ] = arguments;
        // SAFETY: the call reads `registers`, which outlives it.
        check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, thread, 0, &raw const registers) });
    }
    // SAFETY: no pointers, and no signal is delivered.
    check(unsafe { libc::ptrace(libc::PTRACE_DETACH, thread, 0, 0) });
    is_in_call
}

/// Lets a command inherit a descriptor of this process.
pub fn inherit(command: &mut Command, descriptor: i32) {
    // SAFETY: no pointers.
    let inherit = move || match unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: the closure makes one system call, and allocates nothing.
    unsafe { command.pre_exec(inherit) };
}

fn check(result: libc::c_long) {
    assert!(result >= 0, "{}", io::Error::last_os_error());
}
