//! Stops the whole sandbox, so that every system call in progress in it has ended.
//!
//! A thread stops only on its way out of a system call, and the kernel reports the process as stopped when its last
//! thread has stopped (Linux `kernel/signal.c`, `task_participate_group_stop`). Runs on the thread that removes a
//! doorbell or an irqfd, or on the thread that runs a vCPU whose code is patched.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::process::Process;
use super::progress::ProgressBound;
use super::wait::Backoff;

/// The CPU time that a sandbox may use until it stops. A running thread stops within a tick of the kernel's clock; only
/// a SIGCONT from another process makes it continue.
const STOP_BUDGET: Duration = Duration::from_secs(1);

/// When to send SIGSTOP again: a SIGCONT from another process cancels it.
const RESEND_INTERVAL: Duration = Duration::from_millis(10);

impl Process {
    /// Stops every thread of the sandbox and continues it: when this returns, each system call that was in progress in
    /// the sandbox has ended. It needs no cooperation from the code in the sandbox.
    ///
    /// A sandbox that is already stopped stays stopped. If another process stops the sandbox at the same time, the
    /// sandbox continues when this stop ends, because the kernel does not distinguish the two. The error is
    /// [`io::ErrorKind::TimedOut`] if the sandbox was never seen stopped although it used its CPU time, or got none
    /// ([`ProgressBound`]).
    pub fn stop_and_continue(&self) -> io::Result<()> {
        self.while_stopped(|| ())
    }

    /// Like [`stop_and_continue`](Self::stop_and_continue), but calls `act` while the sandbox is stopped. If another
    /// process continues the sandbox, it may run during `act`.
    pub fn while_stopped<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        // Two concurrent stops would both end when the first one ends.
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
