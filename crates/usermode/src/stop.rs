//! Stops the whole sandbox, so that every system call that was under way in it has ended.
//!
//! A thread stops only on its way out of a system call, and the kernel reports the process as stopped when its
//! last thread has stopped (Linux `kernel/signal.c`, `task_participate_group_stop`). Runs on the thread that removes a
//! doorbell or an irqfd, or that runs a vCPU whose code is patched.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::Process;
use super::progress::ProgressBound;
use super::wait::Backoff;

/// The CPU time that a sandbox may use until it stops. A thread that has a CPU stops within a tick of the kernel's clock;
/// only a SIGCONT from another process continues it.
const STOP_BUDGET: Duration = Duration::from_secs(1);

/// After how long SIGSTOP is sent again: a SIGCONT from another process cancels it.
const RESEND_INTERVAL: Duration = Duration::from_millis(10);

impl Process {
    /// Stops every thread of the sandbox and continues it: when this returns, each system call that was under
    /// way in the sandbox has ended. It needs no cooperation of the code in the sandbox.
    ///
    /// A sandbox that is stopped already stays stopped. If another process stops the sandbox at the same time,
    /// it continues together with this stop, because the kernel does not distinguish the two. The error is
    /// [`io::ErrorKind::TimedOut`] if the sandbox was never seen stopped although it used its CPU time, or got none
    /// ([`ProgressBound`]).
    pub fn stop_and_continue(&self) -> io::Result<()> {
        self.while_stopped(|| ())
    }

    /// The same, and calls `act` meanwhile. If another process continues the sandbox, it may run during `act`.
    pub fn while_stopped<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        // Two stops at a time would end with the first.
        let _turn = self.stops.lock();
        if self.is_stopped()? {
            return Ok(act());
        }
        let stopped = self.stop();
        let result = stopped.map(|()| act());
        self.send(Signal::CONT);
        result
    }

    fn stop(&self) -> io::Result<()> {
        let mut bound = ProgressBound::new(self, STOP_BUDGET);
        loop {
            self.send(Signal::STOP);
            let again = Instant::now() + RESEND_INTERVAL;
            let mut backoff = Backoff::default();
            while Instant::now() < again {
                if self.is_stopped()? {
                    return Ok(());
                }
                backoff.pause();
            }
            bound.check()?;
        }
    }
}
