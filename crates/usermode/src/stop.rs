//! Stops the whole sandbox, so that every system call that was under way in it has ended.
//!
//! A thread stops only on its way out of a system call, and the kernel reports the process as stopped when its
//! last thread has stopped (Linux `kernel/signal.c`, `task_participate_group_stop`). The state is read with
//! WNOWAIT, which does not consume the report, so the answer is the present state and not an earlier stop. Runs
//! on the thread that removes a doorbell or an irqfd, or that runs a vCPU whose code is patched.
#![allow(unsafe_code)]

use std::io;
use std::time::{Duration, Instant};

use super::process::Process;
use super::progress::{Backoff, ProgressBound};

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
        self.send(libc::SIGCONT);
        result
    }

    fn stop(&self) -> io::Result<()> {
        let mut bound = ProgressBound::new(self, STOP_BUDGET);
        loop {
            self.send(libc::SIGSTOP);
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

    /// Whether all threads of the sandbox are stopped or have ended.
    pub fn is_stopped(&self) -> io::Result<bool> {
        let pid = self.pid().cast_unsigned();
        let states = libc::WSTOPPED | libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        loop {
            // SAFETY: all-zero bytes are a valid siginfo_t, which waitid fills in.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // SAFETY: `info` outlives the call; the process is our child and not reaped.
            if unsafe { libc::waitid(libc::P_PID, pid, &raw mut info, states) } >= 0 {
                // SAFETY: waitid succeeded, so the fields of SIGCHLD are set; without a state to report the process
                // number stays 0.
                return Ok(unsafe { info.si_pid() } != 0);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn send(&self, signal: libc::c_int) {
        // SAFETY: no pointers; the process is ours and not reaped. It may have ended already.
        unsafe { libc::kill(self.pid(), signal) };
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use vmbell_hypervisor::VmConfig;

    use crate::UsermodeVm;

    #[test]
    fn sandbox_stays_stopped_as_long_as_one_of_two_threads_needs_it() {
        let vm = UsermodeVm::new(&VmConfig::default()).unwrap();
        let process = vm.guest.sandbox.process();
        let stop = || {
            for _ in 0..100 {
                let act = || {
                    std::thread::yield_now();
                    process.is_stopped().unwrap()
                };
                assert!(process.while_stopped(act).unwrap());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(stop);
            stop();
        });
        assert!(!process.is_stopped().unwrap());
    }
}
