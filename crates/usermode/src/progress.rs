//! Bounds waits for the sandbox by its own progress, not only by the clock. Runs on the threads that start sandboxes
//! and that register or remove a doorbell or an irqfd.
//!
//! A busy host may leave a runnable thread without a CPU for more than a second, so a short deadline would mistake an
//! honest sandbox for a hostile one. Only system calls are used, because a confined monitor may not open files in
//! `/proc`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::process::Process;
use super::wait::STALL_TIMEOUT;

/// How long a wait continues while another process keeps the sandbox stopped (SIGSTOP).
const STOPPED_TIMEOUT: Duration = Duration::from_secs(1);

/// The bound on one wait.
#[derive(Debug)]
pub struct ProgressBound<'p> {
    process: &'p Process,
    /// The CPU time at which the wait fails.
    most: Duration,
    used: Duration,
    progressed_at: Instant,
    stopped_since: Option<Instant>,
}

impl<'p> ProgressBound<'p> {
    /// Begins a wait for something that an honest sandbox does before all its threads together have used `budget` of
    /// CPU time.
    pub fn new(process: &'p Process, budget: Duration) -> Self {
        let used = process.cpu_time();
        Self {
            process,
            most: used + budget,
            used,
            progressed_at: Instant::now(),
            stopped_since: None,
        }
    }

    /// Checks whether the wait may continue. The error is [`io::ErrorKind::UnexpectedEof`] if the sandbox has ended,
    /// and [`io::ErrorKind::TimedOut`] if it has been stopped or without a CPU for too long, or has used up its CPU
    /// time.
    pub fn check(&mut self) -> io::Result<()> {
        if self.process.has_ended() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let now = Instant::now();
        if self.process.is_stopped()? {
            self.progressed_at = now;
            let since = *self.stopped_since.get_or_insert(now);
            return match now - since > STOPPED_TIMEOUT {
                true => Err(timed_out("the sandbox is stopped; continue it (SIGCONT)")),
                false => Ok(()),
            };
        }
        self.stopped_since = None;
        let used = self.process.cpu_time();
        if used != self.used {
            (self.used, self.progressed_at) = (used, now);
        }
        if used > self.most {
            Err(timed_out(
                "the sandbox used its CPU time for something else; is a debugger attached, or does another process \
                 send it SIGCONT?",
            ))
        } else if now - self.progressed_at > STALL_TIMEOUT {
            Err(timed_out(
                "the sandbox got no CPU for 30 s; is it frozen, or is a debugger attached?",
            ))
        } else {
            Ok(())
        }
    }
}

fn timed_out(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}

/// How often a wait for a sandbox checks its bound. The check also detects the end of the sandbox, which a listener
/// before Linux 6.11 reports only when the process is reaped.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until `file` can be read without blocking. The error is [`io::ErrorKind::UnexpectedEof`] if no writer is left
/// or the sandbox has ended, and [`io::ErrorKind::TimedOut`] if the bound is reached.
pub fn await_readable(file: &impl AsRawFd, bound: &mut ProgressBound<'_>) -> io::Result<()> {
    let time = libc::c_int::try_from(POLL_INTERVAL.as_millis()).unwrap_or(libc::c_int::MAX);
    loop {
        let mut poll = libc::pollfd {
            fd: file.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, which outlives the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, time) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        } else if poll.revents & libc::POLLIN != 0 {
            return Ok(());
        } else if ready > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bound.check()?;
    }
}
