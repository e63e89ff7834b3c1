//! Makes a vCPU leave the guest, from any thread.
//!
//! If the vCPU's thread is inside `KVM_RUN`, a signal makes the call return. If it is about to call `KVM_RUN`,
//! `immediate_exit` makes the call return at once; the kernel reads that field after the call has begun. A kick
//! therefore does both, in an order that loses no kick (see [`Kicks::answer`]). The signal and its handler belong to
//! the whole process, so the handler is installed only if the process has no other.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, LazyLock};

use super::super::{Error, Kick};
use super::error::KvmError;
use super::run_page::RunMapping;

use vmbell::sync::Mutex;

/// The state that a vCPU shares with the threads that kick it.
#[derive(Debug)]
pub struct Kicks {
    page: Arc<RunMapping>,
    signal: libc::c_int,
    requested: AtomicBool,
    /// The thread that runs the vCPU; 0 before the first run.
    thread: AtomicI32,
}

impl Kicks {
    /// Makes kicks by `signal`, and installs a handler for it if the process has none. Fails with
    /// [`KvmError::KickSignal`] if the process has a different handler.
    pub fn new(page: Arc<RunMapping>, signal: libc::c_int) -> Result<Self, Error> {
        install_handler(signal)?;
        Ok(Self {
            page,
            signal,
            requested: AtomicBool::new(false),
            thread: AtomicI32::new(0),
        })
    }

    /// Records the calling thread as the target of the kick signal.
    #[inline]
    pub fn enter(&self) {
        let this = thread_id();
        if self.thread.load(Relaxed) != this {
            self.thread.store(this, SeqCst);
        }
    }

    /// Called when `KVM_RUN` was interrupted; returns whether it was interrupted by a kick.
    ///
    /// A kick first sets the request and then `immediate_exit`; this function clears `immediate_exit` first and then
    /// checks for a request. So a concurrent kick leaves at least one of the two set.
    pub fn answer(&self) -> bool {
        self.page.immediate_exit().store(0, SeqCst);
        self.requested.swap(false, SeqCst)
    }

    /// Returns whether a kick waits to be answered.
    pub fn are_requested(&self) -> bool {
        self.requested.load(SeqCst)
    }
}

impl Kick for Kicks {
    fn kick(&self) {
        self.requested.store(true, SeqCst);
        self.page.immediate_exit().store(1, SeqCst);
        let thread = self.thread.load(SeqCst);
        if thread != 0 {
            let process = std::process::id();
            // SAFETY: no pointers. The kernel checks that the thread belongs to this process. If the thread has ended
            // and another thread has its number, that thread gets a signal whose handler does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, self.signal) };
        }
    }
}

/// The kick signal unless the VMM chooses one: the first real-time signal that the C library leaves to programs.
pub fn default_signal() -> libc::c_int {
    libc::SIGRTMIN()
}

extern "C" fn nothing(_: libc::c_int) {}

/// Installs a handler that does nothing, unless it is installed already: the signal only has to interrupt a system
/// call.
fn install_handler(signal: libc::c_int) -> Result<(), Error> {
    // Held from reading the old handler until the new one is set, so that two vCPUs made at once do not both install
    // it. Lazy, because loom's `Mutex::new` is not const.
    static TURN: LazyLock<Mutex<()>> = LazyLock::new(Mutex::default);
    let failed = || Error::last("install the handler of the signal that kicks vcpus");
    let ours = nothing as *const () as usize;
    let _turn = TURN.lock();
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, so no restart, and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills in `action`, which lives through it, and changes nothing.
    if unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) } < 0 {
        return Err(failed());
    }
    match action.sa_sigaction {
        handler if handler == ours => return Ok(()),
        libc::SIG_DFL | libc::SIG_IGN => {}
        _ => return Err(KvmError::KickSignal { signal }.into()),
    }
    // SAFETY: as above.
    action = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ours;
    // SAFETY: `action` is initialised and lives through the call; the handler does nothing.
    if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } < 0 {
        return Err(failed());
    }
    Ok(())
}

/// Returns the kernel's id of the calling thread, cached for each thread.
#[inline]
fn thread_id() -> i32 {
    thread_local! {
        static ID: Cell<i32> = const { Cell::new(0) };
    }
    ID.with(|id| {
        if id.get() == 0 {
            // SAFETY: the call takes no pointers and cannot fail.
            id.set(unsafe { libc::gettid() });
        }
        id.get()
    })
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use vmm_sys_util::signal::register_signal_handler;

    use super::*;

    static CALLS: AtomicU32 = AtomicU32::new(0);

    extern "C" fn theirs(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        CALLS.fetch_add(1, SeqCst);
    }

    #[test]
    fn handler_of_the_program_is_left_alone() {
        let signal = libc::SIGRTMIN() + 2;
        register_signal_handler(signal, theirs).unwrap();
        let error = install_handler(signal).unwrap_err();
        assert!(
            matches!(error.of_backend(), Some(KvmError::KickSignal { signal: refused }) if *refused == signal),
            "{error}"
        );
        // SAFETY: no pointers; the handler counts.
        assert_eq!(unsafe { libc::raise(signal) }, 0);
        assert_eq!(CALLS.load(SeqCst), 1);
    }

    #[test]
    fn handler_of_kicks_is_installed_once_and_for_each_signal() {
        for signal in [libc::SIGRTMIN() + 3, libc::SIGRTMIN() + 4] {
            for _ in 0..2 {
                install_handler(signal).unwrap();
            }
            // SAFETY: no pointers; the handler is installed, so the signal does not end the process.
            assert_eq!(unsafe { libc::raise(signal) }, 0);
        }
    }
}
