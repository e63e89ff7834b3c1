//! Bounds on waits for the sandbox by its own progress, not by the clock alone. Runs on the threads that start
//! sandboxes and that register or remove a doorbell or an irqfd.
//!
//! A busy host leaves a runnable thread without a CPU for a second and more, so a short deadline takes an honest
//! sandbox for a hostile one. Only system calls are used, because a confined monitor may not open files in `/proc`.

use std::io;
use std::time::{Duration, Instant};

use super::process::Process;

/// How long a wait continues while another process keeps the sandbox stopped (SIGSTOP).
const STOPPED_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a wait continues while the sandbox, which is not stopped, gets no CPU. A host with eight busy loops leaves
/// a sandbox of nice 19 without one for about 2.4 s; a frozen or traced sandbox never gets one.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The bound on one wait.
#[derive(Debug)]
pub struct ProgressBound<'p> {
    process: &'p Process,
    /// The CPU time at which the wait has failed.
    most: Duration,
    used: Duration,
    progressed_at: Instant,
    stopped_since: Option<Instant>,
}

impl<'p> ProgressBound<'p> {
    /// A wait that begins now, for something that an honest sandbox does before all its threads together have used
    /// `budget` of CPU time.
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

    /// Whether the wait may continue. The error is [`io::ErrorKind::UnexpectedEof`] if the sandbox has ended, and
    /// [`io::ErrorKind::TimedOut`] if it has been stopped or without a CPU for too long, or has used its CPU time
    /// for something else.
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

/// The pauses of a loop that asks again and again: it yields first, then sleeps longer each time, so that the sandbox gets
/// the CPU that it may need to answer.
#[derive(Debug, Default)]
pub struct Backoff(u32);

impl Backoff {
    /// Waits until it is time to ask again, a millisecond at most.
    pub fn pause(&mut self) {
        const YIELDS: u32 = 16;
        if self.0 < YIELDS {
            std::thread::yield_now();
        } else {
            let micros = 10_u64 << (self.0 - YIELDS);
            std::thread::sleep(Duration::from_micros(micros.min(1000)));
        }
        self.0 = (self.0 + 1).min(YIELDS + 7);
    }
}
