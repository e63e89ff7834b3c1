//! Makes a vCPU leave the guest, from any thread.
//!
//! A kick that finds the thread inside of `KVM_RUN` needs a signal; one that finds it on its way
//! there needs `immediate_exit`, which the kernel looks at after it has taken the thread in. So
//! both are done, in the order that loses none (see [`Kicks::answer`]).
#![allow(unsafe_code)]

use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{Arc, OnceLock};

use super::super::{Error, Kick};
use super::run_page::RunPage;

/// What a vCPU and those who kick it share.
#[derive(Debug)]
pub struct Kicks {
    page: Arc<RunPage>,
    requested: AtomicBool,
    /// The thread that runs the vCPU; 0 before the first run.
    thread: AtomicI32,
}

impl Kicks {
    pub fn new(page: Arc<RunPage>) -> Result<Self, Error> {
        install_handler()?;
        Ok(Self {
            page,
            requested: AtomicBool::new(false),
            thread: AtomicI32::new(0),
        })
    }

    /// Says which thread to signal: the caller's.
    #[inline]
    pub fn enter(&self) {
        let this = thread_id();
        if self.thread.load(Relaxed) != this {
            self.thread.store(this, SeqCst);
        }
    }

    /// Called when `KVM_RUN` was interrupted: whether that was a kick.
    ///
    /// A kick asks first and sets `immediate_exit` afterwards, so clearing that first and looking
    /// for a request afterwards leaves one of them to be seen.
    pub fn answer(&self) -> bool {
        self.page.immediate_exit().store(0, SeqCst);
        self.requested.swap(false, SeqCst)
    }

    /// Whether a kick waits to be answered.
    pub fn are_requested(&self) -> bool {
        self.requested.load(SeqCst)
    }

    fn kick(&self) {
        self.requested.store(true, SeqCst);
        self.page.immediate_exit().store(1, SeqCst);
        let thread = self.thread.load(SeqCst);
        if thread != 0 {
            let process = std::process::id();
            // SAFETY: no pointers. The kernel checks that the thread is this process's; one that got
            // the number of an ended one takes a signal that does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal()) };
        }
    }
}

/// Kicks a [`super::KvmVcpu`].
#[derive(Clone, Debug)]
pub struct KvmKick(pub(super) Arc<Kicks>);

impl Kick for KvmKick {
    fn kick(&self) {
        self.0.kick();
    }
}

/// The first real-time signal that is left to programs.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

extern "C" fn nothing(_: libc::c_int) {}

/// The signal has only to interrupt a system call, once for the whole process.
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

/// The kernel's number of the calling thread, asked for once a thread.
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
