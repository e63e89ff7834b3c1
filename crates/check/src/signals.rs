//! The signals that code under test raises: the guard's, and those of a crash.
//!
//! The handlers run on the thread that explores, on a separate stack. Any other signal is passed to the previous
//! handler.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem;
use std::ptr;
use std::sync::Mutex;

use crate::arch;
use crate::error::Error;
use crate::guard;
use crate::task;

/// The signals that an instruction or `abort` raises. SIGTRAP also ends a single step.
const SIGNALS: [(i32, &str); 6] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGTRAP, "SIGTRAP"),
];

/// `SI_KERNEL`, which not every libc defines.
const KERNEL: i32 = 0x80;

/// The actions that the handler replaces, with their signals.
static BEFORE: Mutex<Vec<(i32, libc::sigaction)>> = Mutex::new(Vec::new());

thread_local! {
    static STACK: Cell<Option<Box<[u8; 1 << 16]>>> = const { Cell::new(None) };
}

/// The handlers, while a scenario is explored on this thread. Only one exists at a time: the explorer holds a lock.
#[derive(Debug)]
pub(crate) struct Handlers {
    /// The thread's previous alternate stack.
    stack: libc::stack_t,
}

impl Handlers {
    pub(crate) fn install() -> Result<Handlers, Error> {
        arch::prepare().map_err(Error::Step)?;
        let stack = alternate_stack();
        if let Ok(mut before) = BEFORE.lock() {
            *before = SIGNALS
                .iter()
                .map(|&(signal, _)| (signal, handle(signal)))
                .collect();
        }
        Ok(Handlers { stack })
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        if let Ok(mut before) = BEFORE.lock() {
            for (signal, action) in mem::take(&mut *before) {
                restore(signal, &action);
            }
        }
        // SAFETY: `stack` is what the kernel said was there before, on this thread.
        unsafe { libc::sigaltstack(&raw const self.stack, ptr::null_mut()) };
    }
}

/// Sets a stack for the handlers, because the stacks of tasks are small. Returns the previous one.
fn alternate_stack() -> libc::stack_t {
    let mut memory = STACK.take().unwrap_or_else(|| Box::new([0; 1 << 16]));
    let stack = libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: memory.len(),
    };
    STACK.set(Some(memory));
    // SAFETY: all bits zero are a valid `stack_t`.
    let mut old = unsafe { mem::zeroed() };
    // SAFETY: the memory belongs to this thread, and stays where it is until the thread ends.
    unsafe { libc::sigaltstack(&raw const stack, &raw mut old) };
    old
}

fn handle(signal: i32) -> libc::sigaction {
    // SAFETY: all bits zero are a valid `sigaction`: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = raised as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: as above.
    let mut old = unsafe { mem::zeroed() };
    // SAFETY: both point to values of this frame; the handler is a function of this program.
    unsafe { libc::sigaction(signal, &raw const action, &raw mut old) };
    old
}

fn restore(signal: i32, action: &libc::sigaction) {
    // SAFETY: `action` is what `handle` got from the kernel.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

extern "C" fn raised(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` to this handler, which alone uses it.
    let info = unsafe { &*info };
    // SAFETY: the kernel passes the context of the interrupted code, which this handler alone uses.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // A fault on a non-canonical address does not report the address.
    let is_fault = info.si_code > 0 && info.si_code != KERNEL;
    // SAFETY: a fault of these signals has an address.
    let address = (is_fault && matches!(signal, libc::SIGSEGV | libc::SIGBUS))
        .then(|| unsafe { info.si_addr() }.addr());
    let is_of_guard = match (signal, address) {
        (libc::SIGSEGV, Some(address)) => guard::fault(address, context),
        (libc::SIGTRAP, _) => guard::step_ended(context),
        _ => false,
    };
    if is_of_guard {
        return;
    }
    // A signal that another process sends says nothing about the code under test.
    if info.si_code != libc::SI_USER && task::crash(signal, address, context) {
        return;
    }
    let before = BEFORE.try_lock();
    let action = before
        .iter()
        .flat_map(|before| before.iter())
        .find(|(of, _)| *of == signal);
    match action {
        Some((_, action)) => restore(signal, action),
        // SAFETY: it changes the action of a signal.
        None => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
    // The instruction faults again. A signal that was sent does not repeat by itself.
    if info.si_code <= 0 {
        // SAFETY: it sends a signal to this thread, which is blocked until this handler returns.
        unsafe { libc::raise(signal) };
    }
}

/// The name of a signal that is handled.
pub(crate) fn name(signal: i32) -> &'static str {
    SIGNALS
        .iter()
        .find(|(of, _)| *of == signal)
        .map_or("a signal", |(_, name)| name)
}

/// Returns whether code at an address is in the file that contains the checker, not in a shared library such as libc.
pub(crate) fn is_in_program(address: usize) -> bool {
    file_of(address) == file_of(raised as *const () as usize)
}

/// Returns where the file that contains the code at an address is mapped; null if the C library does not know.
fn file_of(address: usize) -> *mut libc::c_void {
    // SAFETY: all bits zero are a valid `Dl_info`.
    let mut found: libc::Dl_info = unsafe { mem::zeroed() };
    // SAFETY: the call looks the address up, and writes to a value of this frame.
    unsafe { libc::dladdr(ptr::without_provenance(address), &raw mut found) };
    found.dli_fbase
}
