//! A guest's threads in this process: those of its vCPUs and devices, and the main thread, which waits for the guest to
//! end.
//!
//! A VMM that confines itself sets a function by [`on_spawn`], which is called for each of these threads: seccomp
//! filters, capabilities and Landlock rules belong to a thread, and a new thread inherits those of the thread that
//! starts it. [`spawn`] starts a thread of a given kind, and an [`EventLoop`] is a thread that waits for descriptors
//! and timers.
//!
//! ```
//! use vmbell::thread::{ThreadKind, spawn};
//!
//! # fn main() -> std::io::Result<()> {
//! let thread = spawn(ThreadKind::Device, "example", || 7)?;
//! assert_eq!(thread.join().ok(), Some(7));
//! # Ok(())
//! # }
//! ```

mod callbacks;
mod event_loop;
mod timer;

use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

pub use event_loop::{EventLoop, StillRunning, Token};
pub use timer::Timer;
pub use vmm_sys_util::epoll::EventSet;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// The thread made the guest, and waits for the guest to end.
    Main,
    /// The thread runs the vCPU with this index, and answers its exits.
    Vcpu(u32),
    /// The thread serves a device, or kicks vCPUs when a condition holds.
    Device,
}

/// What a new thread calls before its work.
pub type OnStart = Box<dyn FnOnce() + Send>;
/// Called for each thread, on the thread that starts it.
pub type OnSpawn = Box<dyn Fn(ThreadKind) -> OnStart + Send + Sync>;

static ON_SPAWN: OnceLock<OnSpawn> = OnceLock::new();

/// Sets the function that is called for each thread of all guests of this process. Call it once, before the first guest
/// is made; a second call returns its function as the error.
pub fn on_spawn(call: OnSpawn) -> Result<(), OnSpawn> {
    ON_SPAWN.set(call)
}

/// Returns what a new thread of this kind calls before its work. To be called on the thread that starts it.
pub fn prepare(kind: ThreadKind) -> OnStart {
    ON_SPAWN
        .get()
        .map_or_else(|| Box::new(|| {}) as OnStart, |call| call(kind))
}

/// Starts a thread with this kind and name, and returns after it has done what [`on_spawn`] asks for. Fails if the
/// process cannot have more threads.
pub fn spawn<T: Send + 'static>(
    kind: ThreadKind,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let builder = Builder::new().name(name.to_owned());
    let Some(call) = ON_SPAWN.get() else {
        return builder.spawn(work);
    };
    let start = call(kind);
    let (starting, started) = channel::<()>();
    let thread = builder.spawn(move || {
        start();
        drop(starting);
        work()
    })?;
    // Nothing is sent: the channel closes when the thread has started.
    let _ = started.recv();
    Ok(thread)
}

impl fmt::Display for ThreadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => f.write_str("main thread"),
            Self::Vcpu(index) => write!(f, "vcpu {index}"),
            Self::Device => f.write_str("device thread"),
        }
    }
}
