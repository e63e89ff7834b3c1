//! Makes a vCPU leave the guest, from any thread.
//!
//! If the thread is inside `KVM_RUN`, a signal makes it return. If it is about to call `KVM_RUN`,
//! `immediate_exit` makes the call return at once; the kernel reads that field after the call has begun. A kick
//! therefore does both, in an order in which none is lost (see [`Kicks::answer`]).
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use super::super::{Error, Kick};
use super::run_page::RunMapping;

/// The state that a vCPU shares with the threads that kick it.
#[derive(Debug)]
pub struct Kicks {
    page: Arc<RunMapping>,
    requested: AtomicBool,
    /// The thread that runs the vCPU; 0 before the first run.
    thread: AtomicI32,
}

impl Kicks {
    pub fn new(page: Arc<RunMapping>) -> Result<Self, Error> {
        install_handler()?;
        Ok(Self {
            page,
            requested: AtomicBool::new(false),
            thread: AtomicI32::new(0),
        })
    }

    /// Notes the calling thread as the one that kicks send their signal to.
    #[inline]
    pub fn enter(&self) {
        let this = thread_id();
        if self.thread.load(Relaxed) != this {
            self.thread.store(this, SeqCst);
        }
    }

    /// Called when `KVM_RUN` was interrupted; returns whether it was interrupted by a kick.
    ///
    /// A kick first sets the request and then `immediate_exit`; this clears `immediate_exit` first and then
    /// looks for a request. So a kick at the same time leaves at least one of the two set.
    pub fn answer(&self) -> bool {
        self.page.immediate_exit().store(0, SeqCst);
        self.requested.swap(false, SeqCst)
    }

    /// Whether a kick waits to be answered.
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
            // SAFETY: no pointers. The kernel checks that the thread belongs to this process. If the thread has
            // ended and another one got its number, that one gets a signal whose handler does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) };
        }
    }
}

/// The signal of kicks: the first real-time signal that the C library leaves to programs.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

extern "C" fn nothing(_: libc::c_int) {}

/// Installs a handler that does nothing, once for the whole process: the signal only has to interrupt a system
/// call.
fn install_handler() -> Result<(), Error> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let install = || {
        // SAFETY: all-zero bytes are a valid `sigaction`: no flags, so no restart, and an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: `action` is initialised and lives through the call; the handler does nothing.
        let result = unsafe { libc::sigaction(signal(), &raw const action, std::ptr::null_mut()) };
        if result < 0 {
            return Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
        }
        Ok(())
    };
    let result = *INSTALLED.get_or_init(install);
    result.map_err(|errno| Error::System {
        operation: "install the handler of the signal that kicks vcpus",
        source: std::io::Error::from_raw_os_error(errno),
    })
}

/// The kernel's number of the calling thread, cached for each thread.
#[inline]
fn thread_id() -> i32 {
    thread_local! {
        static ID: Cell<i32> = const { Cell::new(0) };
    }
    ID.with(|id| {
        if id.get() == 0 {
            // SAFETY: no pointers, and no failure.
            id.set(unsafe { libc::gettid() });
        }
        id.get()
    })
}
