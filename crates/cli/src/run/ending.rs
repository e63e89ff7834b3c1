//! What ends a run from outside the guest, and the exit status in every case.
//!
//! After a time limit or a signal, the guest's output has a moment to be written. Then the thread `end` ends the
//! process, whatever its other threads wait for: a disk that does not answer, or a reader that does not read.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::console::{GuestInput, StdinConsole};
use crate::exit::Exit;
use crate::interrupt;
use vmbell::thread::{self, ThreadKind};
use vmbell_devices::Output;
use vmbell_report::units::plural;
use vmbell_vmm::{BoardError, Stop};

/// How often a thread checks whether the run has to end.
const LOOK: Duration = Duration::from_millis(20);
/// How long the guest's output may still be written after a time limit or a signal.
const PRINTING: Duration = Duration::from_millis(800);
/// How long after a time limit or a signal the process ends in any case.
const LONGEST: Duration = Duration::from_millis(900);
/// The status that a shell reports for a program killed by SIGPIPE.
const BROKEN_PIPE: u8 = 128 + 13;

/// The exit status of every failure except wrong arguments. It is even, so no guest can cause it (see [`status`]).
pub(super) const FAILED: u8 = 126;

/// Signals, the console's command to quit, the time limit, and failed output, while the guest runs.
pub(super) struct RunEnding {
    why: Arc<EndingReasons>,
    console: Option<StdinConsole>,
}

/// What may end the run.
struct EndingReasons {
    interrupted: &'static AtomicBool,
    quit: Option<Arc<AtomicBool>>,
    timeout: Duration,
    deadline: Option<Instant>,
    output: Output,
    /// The exit status, once it is known.
    status: OnceLock<u8>,
    /// A `Once` for the message about lost output, and a `Once` for the message about the time limit.
    told: [Once; 2],
}

impl RunEnding {
    /// Begins to watch. A `timeout` of zero is no limit. If there is an `input`, the guest gets what the user types.
    pub(super) fn begin(
        timeout: Duration,
        input: Option<GuestInput>,
        output: Output,
    ) -> Result<Self> {
        let interrupted = interrupt::catch().context("cannot catch signals")?;
        let console = input.map(StdinConsole::attach).transpose()?;
        let why = Arc::new(EndingReasons {
            interrupted,
            quit: console.as_ref().map(StdinConsole::has_quit),
            timeout,
            deadline: (timeout > Duration::ZERO).then(|| Instant::now() + timeout),
            output,
            status: OnceLock::new(),
            told: [const { Once::new() }; 2],
        });
        let theirs = Arc::clone(&why);
        let terminal = console.as_ref().and_then(StdinConsole::restore);
        thread::spawn(ThreadKind::Device, "end", move || {
            theirs.end_in_any_case(terminal);
        })
        .context("cannot start the thread that ends the run")?;
        Ok(Self { why, console })
    }

    /// Whether the run has to end; callable on any thread.
    pub(super) fn is_due(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let why = Arc::clone(&self.why);
        move || why.is_due()
    }

    /// Waits for the guest's output, restores the terminal, and returns how the guest ended.
    pub(super) fn status(self, stop: Result<Stop, BoardError>) -> Result<u8> {
        let why = self.why;
        let mut limit = EndingTime::new(PRINTING);
        let unwritten = why.output.drain(|| !limit.has_passed(why.is_due()));
        drop(self.console);
        let failed = why.output.failed();
        why.tell_unwritten(unwritten);
        let status = match (stop, failed) {
            (Err(error), _) => Err(error.into()),
            (_, Some(ErrorKind::BrokenPipe)) => Ok(BROKEN_PIPE),
            (_, Some(kind)) => Err(anyhow!("cannot print what the guest prints: {kind}")),
            (Ok(Stop::Done(code)), _) => Ok(status(code)),
            (Ok(Stop::Shutdown | Stop::Reset), _) => Ok(Exit::Good.status()),
            (Ok(Stop::Kicked), _) => Ok(why.kicked()),
            (Ok(Stop::Halted), _) => Err(anyhow!("the guest halted and nothing can wake it")),
        };
        // This is the only place that sets it.
        let _ = why.status.set(*status.as_ref().unwrap_or(&FAILED));
        status
    }
}

impl EndingReasons {
    fn is_due(&self) -> bool {
        is_set(self.interrupted)
            || self.quit.as_deref().is_some_and(is_set)
            || self.output.failed().is_some()
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn tell_unwritten(&self, bytes: u64) {
        self.told[0].call_once(|| {
            if bytes > 0 && self.output.failed().is_none() {
                let bytes = plural(bytes, "byte");
                eprintln!("warning: {bytes} of the guest's output not written");
            }
        });
    }

    /// The exit status of a run that was ended from outside the guest; prints an error if that was the time limit.
    fn kicked(&self) -> u8 {
        if is_set(self.interrupted) || self.quit.as_deref().is_some_and(is_set) {
            return Exit::Interrupted.status();
        }
        match self.output.failed() {
            Some(ErrorKind::BrokenPipe) => BROKEN_PIPE,
            Some(_) => FAILED,
            None => {
                self.told[1].call_once(|| {
                    eprintln!("error: the guest did not end within {:?}", self.timeout);
                });
                Exit::TimedOut.status()
            }
        }
    }

    /// Ends the process some time after the run has to end, and restores the `terminal` before, unless that was done.
    fn end_in_any_case(&self, terminal: Option<impl Fn()>) {
        let mut limit = EndingTime::new(LONGEST);
        while !limit.has_passed(self.is_due()) {
            std::thread::sleep(LOOK);
        }
        let status = match self.status.get() {
            Some(status) => *status,
            None => {
                if let Some(restore) = terminal {
                    restore();
                }
                self.tell_unwritten(self.output.drain(|| false));
                self.kicked()
            }
        };
        std::process::exit(status.into());
    }
}

/// A time limit that starts when the run has to end.
struct EndingTime {
    length: Duration,
    begun: Option<Instant>,
}

impl EndingTime {
    const fn new(length: Duration) -> Self {
        let begun = None;
        Self { length, begun }
    }

    fn has_passed(&mut self, is_due: bool) -> bool {
        if is_due && self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
        self.begun
            .is_some_and(|begun| begun.elapsed() >= self.length)
    }
}

fn is_set(flag: &AtomicBool) -> bool {
    flag.load(Ordering::Acquire)
}

/// The exit status of QEMU when a guest writes `code` to QEMU's device `isa-debug-exit`; it is always odd.
pub(super) const fn status(code: u32) -> u8 {
    let [low, ..] = code.to_le_bytes();
    low << 1 | 1
}
