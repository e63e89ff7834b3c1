//! The guard: no access of the code under test to the shared memory bypasses the hooks.
//!
//! Each execution that passes from one hook to another in a way that is new runs once more with the shared memory
//! inaccessible. Loads and stores that a hook announced fault, and get access for that one instruction, which is
//! single-stepped. Any other fault is an access that no hook saw. Both signal handlers run on the thread that explores.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::memory::{Mapping, offset};

/// The flag of x86 that raises a trap after one instruction.
const TRAP: i64 = 0x100;

thread_local! {
    static ALTERNATE: Cell<Option<Box<[u8; 1 << 16]>>> = const { Cell::new(None) };
}

/// The range that a plain access may touch: its offset plus 1, and its size; 0 without a range.
static ALLOWED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// The mapping that is guarded: its address and length; 0 if none is.
static GUARDED: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
/// The first access that no hook saw: its instruction, its offset plus 1, and 1 for a store.
static SEEN: [AtomicUsize; 3] = [
    AtomicUsize::new(0),
    AtomicUsize::new(0),
    AtomicUsize::new(0),
];

/// An access that no hook saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unseen {
    pub(crate) instruction: usize,
    pub(crate) offset: u16,
    pub(crate) store: bool,
}

/// Lets the plain access that a hook announced happen.
pub(crate) fn allow(offset: u16, size: usize) {
    ALLOWED[0].store(usize::from(offset) + 1, Ordering::Relaxed);
    ALLOWED[1].store(size, Ordering::Relaxed);
}

/// Ends that permission.
pub(crate) fn forbid() {
    ALLOWED[0].store(0, Ordering::Relaxed);
}

fn protect(protection: i32) {
    let (base, len) = (
        GUARDED[0].load(Ordering::Relaxed),
        GUARDED[1].load(Ordering::Relaxed),
    );
    if base != 0 {
        // SAFETY: the range is the first mapping of the `Mapping` that `protected` borrows.
        unsafe { libc::mprotect(ptr::with_exposed_provenance_mut(base), len, protection) };
    }
}

extern "C" fn fault(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to this handler, which alone uses it.
    let info = unsafe { &*info };
    // SAFETY: the signal is SIGSEGV, whose information has the address.
    let address = unsafe { info.si_addr() };
    // SAFETY: the kernel passes the context of the interrupted code, which this handler alone uses.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let Some(offset) = offset(address.addr()).filter(|_| GUARDED[0].load(Ordering::Relaxed) != 0)
    else {
        // Not ours: the instruction faults again, with the default action.
        // SAFETY: it changes the action of a signal.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        return;
    };
    let start = ALLOWED[0].load(Ordering::Relaxed);
    let at = usize::from(offset) + 1;
    protect(libc::PROT_READ | libc::PROT_WRITE);
    if start != 0 && (start..start + ALLOWED[1].load(Ordering::Relaxed)).contains(&at) {
        registers[libc::REG_EFL as usize] |= TRAP;
    } else if SEEN[1].load(Ordering::Relaxed) == 0 {
        let instruction = registers[libc::REG_RIP as usize].cast_unsigned();
        SEEN[0].store(usize::try_from(instruction).unwrap_or(0), Ordering::Relaxed);
        SEEN[2].store(
            usize::from(registers[libc::REG_ERR as usize] & 2 != 0),
            Ordering::Relaxed,
        );
        SEEN[1].store(at, Ordering::Relaxed);
        // The memory stays accessible: the execution runs to its end, and is refused then.
        GUARDED[0].store(0, Ordering::Relaxed);
    }
}

extern "C" fn trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the context of the interrupted code, which this handler alone uses.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
    protect(libc::PROT_NONE);
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: i32, handler: Handler) -> libc::sigaction {
    // SAFETY: all bits zero are a valid `sigaction`: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: as above.
    let mut old = unsafe { mem::zeroed() };
    // SAFETY: both point to values of this frame; the handler is a function of this program.
    unsafe { libc::sigaction(signal, &raw const action, &raw mut old) };
    old
}

fn restore(signal: i32, old: &libc::sigaction) {
    // SAFETY: `old` is what `handle` got from the kernel.
    unsafe { libc::sigaction(signal, old, ptr::null_mut()) };
}

/// A stack for the handlers, as tasks have small ones.
fn alternate_stack() -> libc::stack_t {
    let mut memory = ALTERNATE.take().unwrap_or_else(|| Box::new([0; 1 << 16]));
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: memory.len(),
    };
    ALTERNATE.set(Some(memory));
    // SAFETY: all bits zero are a valid `stack_t`.
    let mut old = unsafe { mem::zeroed() };
    // SAFETY: the memory belongs to this thread, and stays where it is until the thread ends.
    unsafe { libc::sigaltstack(&raw const stack, &raw mut old) };
    old
}

/// Runs `run` with the mapping guarded, which it opens and closes itself. Returns an access that no hook saw, if any.
pub(crate) fn protected<R>(
    len: usize,
    base: usize,
    run: impl FnOnce() -> R,
) -> (R, Option<Unseen>) {
    let stack = alternate_stack();
    let (on_fault, on_trap) = (handle(libc::SIGSEGV, fault), handle(libc::SIGTRAP, trap));
    GUARDED[1].store(len, Ordering::Relaxed);
    GUARDED[0].store(base, Ordering::Relaxed);
    let result = run();
    GUARDED[0].store(0, Ordering::Relaxed);
    forbid();
    restore(libc::SIGSEGV, &on_fault);
    restore(libc::SIGTRAP, &on_trap);
    // SAFETY: `stack` is what the kernel said was there before.
    unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
    let unseen = SEEN[1]
        .swap(0, Ordering::Relaxed)
        .checked_sub(1)
        .map(|offset| Unseen {
            instruction: SEEN[0].load(Ordering::Relaxed),
            offset: u16::try_from(offset).unwrap_or(u16::MAX),
            store: SEEN[2].load(Ordering::Relaxed) != 0,
        });
    (result, unseen)
}

/// The address of the mapping that code under test sees, as a number.
pub(crate) fn address(mapping: &Mapping) -> usize {
    mapping.seen().as_ptr().expose_provenance()
}
