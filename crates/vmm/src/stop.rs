//! Why the exit loop ended, and a deadline that makes it end.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vmbell::thread::{EventLoop, ThreadKind};
use vmbell_hypervisor::{Kick, VmExit};

/// Why [`Runner::run`](super::Runner::run) returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The program said with this value that it is done ([`done`]). The vCPU can be run again.
    Done(u32),
    /// The guest executed `hlt`.
    Halted,
    /// The guest asked to be switched off.
    Shutdown,
    /// The guest asked to be reset.
    Reset,
    /// A thread kicked the vCPU.
    Kicked,
}

/// Returns the value with which the guest says that it is done, if this exit says so; otherwise `None`. The guest
/// writes it to [`DONE_PORT`](vmbell_hypervisor::x86_64::DONE_PORT), and on arm64 it stores it at
/// [`DONE_ADDRESS`](vmbell_hypervisor::aarch64::DONE_ADDRESS).
#[inline]
pub const fn done(exit: &VmExit) -> Option<u32> {
    match exit {
        #[cfg(target_arch = "x86_64")]
        VmExit::PioOut {
            port: vmbell_hypervisor::x86_64::DONE_PORT,
            data,
            ..
        } => Some(*data),
        #[cfg(target_arch = "aarch64")]
        VmExit::MmioWrite {
            address: vmbell_hypervisor::aarch64::DONE_ADDRESS,
            data,
            ..
        } => Some((*data & 0xffff_ffff) as u32),
        _ => None,
    }
}

/// Kicks a vCPU from its own thread (`vmbell-deadline`) once a condition holds, unless it is dropped first: a guest
/// that loops forever does not stop by itself.
#[derive(Debug)]
pub struct Deadline {
    _thread: EventLoop,
}

/// How often the thread tests the condition, and how often it kicks once the condition holds.
const PERIOD: Duration = Duration::from_millis(20);

impl Deadline {
    /// Kicks again and again from `when` on. Fails if the thread cannot be started.
    pub fn new(when: Instant, kick: Arc<dyn Kick>) -> std::io::Result<Self> {
        Self::when(move || Instant::now() >= when, kick)
    }

    /// Kicks again and again while `holds` returns true. Fails if the thread cannot be started.
    pub fn when(
        holds: impl Fn() -> bool + Send + 'static,
        kick: Arc<dyn Kick>,
    ) -> std::io::Result<Self> {
        let thread = EventLoop::new(ThreadKind::Device, "vmbell-deadline")?;
        let timer = thread.add_timer(move |timer| {
            if holds() {
                kick.kick();
            }
            timer.set(PERIOD);
        })?;
        timer.set(Duration::ZERO);
        Ok(Self { _thread: thread })
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(code) => write!(f, "done, code {code}"),
            Self::Halted => f.write_str("halted"),
            Self::Shutdown => f.write_str("switched off"),
            Self::Reset => f.write_str("reset"),
            Self::Kicked => f.write_str("kicked"),
        }
    }
}
