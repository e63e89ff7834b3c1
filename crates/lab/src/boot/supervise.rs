//! Waits for a report, the end of the VMM, a panic or a time limit, whichever is first. The thread that boots a Linux
//! runs this.

use std::cell::Cell;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::channel::{BootEvent, ProgramStream};
use crate::job::{InitMessage, ProgramEnding, RunReport, answer};

/// How time passes in L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeMode {
    /// As fast as the host allows, on several threads.
    Functional {
        /// Virtual CPUs of L1.
        cpus: u32,
    },
    /// One virtual nanosecond per instruction, on one CPU: a repeated run gives the same counts.
    Deterministic {
        /// Varies what counts accidentally depend on: addresses of programs, and the timer's phase when they start.
        /// `None` uses the plain layout without randomized addresses. The seed takes effect after the boot, so that one
        /// saved state serves all seeds.
        seed: Option<u32>,
    },
}

/// Time limits of a boot and a program. Time does not count while the VMM waits for a CPU of the host, this process is
/// stopped, or the host sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// From the start of the VMM to the start of the program.
    pub boot: Duration,
    /// From the start of the program to its end.
    pub program: Duration,
}

/// How long a Linux may take to react. Time in which its VMM waits for a CPU does not count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long the program may take to end by itself after it was asked to.
    pub ending: Duration,
    /// How long the Linux may take to kill the program and send its output, and its VMM then to end.
    pub leaving: Duration,
    /// Whether to wait for the VMM to end after everything was received. A VMM in L1 ends with L1.
    pub to_the_end: bool,
    /// How long the Linux may take to answer that it is still running. The next question follows this long after each
    /// answer.
    pub answering: Duration,
    /// The longest sleep of the waiting thread. A longer sleep shows that this process was stopped meanwhile.
    pub looking: Duration,
}

/// [`Patience::ending`] per level of Linux: a program may have a report to write.
pub(crate) const ENDING: Duration = Duration::from_secs(7);
/// [`Patience::leaving`] per level of Linux.
pub(crate) const LEAVING: Duration = Duration::from_secs(6);
/// [`Patience::answering`]: only a kernel that hangs takes this long.
pub(crate) const ANSWERING: Duration = Duration::from_secs(60);
/// Returns [`Patience::answering`] of L1 in this mode. If instructions are counted, L1 is never asked: a question would
/// interrupt it at a time that does not depend on L1 alone.
pub(super) fn answering(mode: TimeMode) -> Duration {
    match mode {
        TimeMode::Functional { .. } => ANSWERING,
        TimeMode::Deterministic { .. } => LONGEST,
    }
}

/// [`Patience::looking`].
pub(crate) const LOOKING: Duration = Duration::from_secs(1);
/// How long the VMM may take to end after a panic, while the kernel prints the rest of the trace.
const PANICKING: Duration = Duration::from_secs(3);
/// A limit that no run reaches, but that can be added to the current time.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The end of a time limit. Time that does not count moves the end.
struct RunDeadline<W> {
    at: Instant,
    /// What `of` returned when `at` was set.
    waited: Duration,
    of: W,
}

impl<W: Fn() -> Duration> RunDeadline<W> {
    fn new(of: W, limit: Duration) -> Self {
        let mut deadline = Self {
            at: Instant::now(),
            waited: Duration::ZERO,
            of,
        };
        deadline.restart(limit);
        deadline
    }

    fn restart(&mut self, limit: Duration) {
        self.at = Instant::now() + limit.min(LONGEST);
        self.waited = (self.of)();
    }

    /// Returns the remaining time. The time that does not count is read only when the limit is reached, usually once.
    fn left(&mut self) -> Duration {
        let left = self.at.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return left;
        }
        let waited = (self.of)();
        self.at += waited.saturating_sub(self.waited);
        self.waited = waited;
        self.at.saturating_duration_since(Instant::now())
    }
}

/// Asks a Linux repeatedly whether it is still running, as long as its program runs.
struct Pulse<W> {
    deadline: RunDeadline<W>,
    limit: Duration,
    asked: bool,
}

impl<W: Fn() -> Duration> Pulse<W> {
    fn new(of: W, limit: Duration) -> Self {
        Self {
            deadline: RunDeadline::new(of, LONGEST),
            limit,
            asked: false,
        }
    }

    /// Notes a sign of life.
    fn beat(&mut self) {
        self.asked = false;
        self.deadline.restart(self.limit);
    }

    fn end(&mut self) {
        self.deadline.restart(LONGEST);
    }

    /// Returns the time until the next action, after asking if that is due; `None` if no answer came in time.
    fn left(&mut self, control: &mut UnixStream) -> Option<Duration> {
        let left = self.deadline.left();
        if !left.is_zero() {
            return Some(left);
        }
        if self.asked {
            return None;
        }
        // A failure means that the Linux has ended.
        let _ = control.write_all(&[answer::ASK]);
        self.beat();
        self.asked = true;
        Some(self.limit)
    }
}

/// Everything that was received until the end.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub report: Option<RunReport>,
    pub received: [u64; 3],
    /// CPU time of the VMM; `None` if the VMM has not ended.
    pub cpu: Option<Duration>,
    /// Time from the start of the VMM to the start of the program.
    pub started: Option<Duration>,
    /// Whether a Linux starts another one inside it, and can therefore be asked to stop before the program has started.
    nesting: bool,
    acknowledged: bool,
    /// Whether the program was asked to end.
    asked: bool,
    stopped: bool,
    panicked: bool,
    /// The error of the first sink that failed.
    pub unwritten: Option<io::Error>,
    /// Whether the Linux was asked and did not answer in time.
    pub silent: bool,
}

impl Course {
    /// Returns when the VMM has ended or has to be killed; in the latter case `cpu` is `None`. A program that is still
    /// running at its time limit is asked to end, and then killed, inside its Linux, so that its output is received.
    /// `waited` returns how long the VMM has waited for a CPU so far.
    pub fn follow(
        events: &Receiver<BootEvent>,
        control: &mut UnixStream,
        limits: TimeLimits,
        patience: Patience,
        waited: impl Fn() -> Duration,
    ) -> Self {
        let mut course = Self::default();
        let begin = Instant::now();
        // The clock continues while this process and its VMM are stopped, but not while the host sleeps.
        let (mut looked, stopped) = (begin, Cell::new(Duration::ZERO));
        let lost = || waited() + stopped.get();
        let mut deadline = RunDeadline::new(&lost, limits.boot);
        let mut pulse = Pulse::new(&lost, patience.answering);
        loop {
            let Some(until_pulse) = pulse.left(control) else {
                course.silent = true;
                return course;
            };
            let left = deadline.left().min(until_pulse);
            // Called only before the limit: `recv_timeout` returns messages even after it, and a program may never stop
            // writing.
            let sleep = left.min(patience.looking);
            let event = (!left.is_zero()).then(|| events.recv_timeout(sleep));
            let late = looked.elapsed().saturating_sub(sleep);
            stopped.set(stopped.get() + late);
            looked = Instant::now();
            if let Some(Err(RecvTimeoutError::Timeout)) = event {
                continue;
            }
            let is_running = course.started.is_some() && course.report.is_none();
            let event = match event {
                None | Some(Ok(BootEvent::End)) if is_running && course.may_ask() => {
                    course.asked = true;
                    if event.is_none() {
                        deadline.restart(patience.ending);
                    }
                    let _ = control.write_all(&[answer::END]);
                    continue;
                }
                Some(Ok(BootEvent::End)) => continue,
                // The end is already under way.
                Some(Ok(BootEvent::Stop)) if course.stopped || course.report.is_some() => continue,
                Some(Ok(BootEvent::Stop)) | None | Some(Err(_)) => {
                    let answers = course.started.is_some() || course.nesting;
                    let running = answers && course.report.is_none();
                    if !running || course.stopped || course.panicked {
                        return course;
                    }
                    course.stopped = true;
                    pulse.end();
                    deadline.restart(patience.leaving);
                    // A failure means that the Linux has ended already.
                    let _ = control.write_all(&[answer::STOP]);
                    continue;
                }
                Some(Ok(event)) => event,
            };
            match &event {
                BootEvent::Said(InitMessage::Started) => {
                    deadline.restart(limits.program);
                    pulse.beat();
                }
                BootEvent::Said(InitMessage::Alive) => pulse.beat(),
                BootEvent::Said(InitMessage::Report(_)) => pulse.end(),
                // A failure means that the Linux has ended.
                BootEvent::Unread(ProgramStream::Stdout) => {
                    let _ = control.write_all(&[answer::UNREAD_STDOUT]);
                }
                BootEvent::Unread(ProgramStream::Stderr) => {
                    let _ = control.write_all(&[answer::UNREAD_STDERR]);
                }
                BootEvent::Panicked => {
                    pulse.end();
                    course.panicked = true;
                    if deadline.left() > PANICKING {
                        deadline.restart(PANICKING);
                    }
                }
                _ => {}
            }
            course.take(event, begin.elapsed());
            if course.cpu.is_some() {
                return course;
            }
            if course.complete() && !course.acknowledged {
                if !patience.to_the_end {
                    return course;
                }
                course.acknowledged = true;
                deadline.restart(patience.leaving);
                let _ = control.write_all(&[answer::LEAVE]);
            }
        }
    }

    /// Returns whether the program may still be asked to end.
    const fn may_ask(&self) -> bool {
        !self.asked && !self.stopped && !self.panicked
    }

    /// Takes the messages that the threads sent until the VMM's end. The VMM ended this long after its start.
    pub fn drain(&mut self, events: &Receiver<BootEvent>, after: Duration) {
        events.try_iter().for_each(|event| self.take(event, after));
    }

    /// Returns whether L1's report arrived and all bytes that it counts were read.
    pub fn complete(&self) -> bool {
        let all = |report: &RunReport| {
            report
                .sent
                .iter()
                .zip(self.received)
                .all(|(sent, received)| received >= *sent)
        };
        self.report.as_ref().is_some_and(all)
    }

    fn take(&mut self, event: BootEvent, after: Duration) {
        match event {
            BootEvent::Bytes(stream, length) => self.received[stream as usize] += length,
            BootEvent::Said(InitMessage::Report(mut report)) => {
                // A program is asked to end only at its limit, so it counts as stopped, no matter how it then ended.
                if self.asked
                    && matches!(
                        report.ending,
                        ProgramEnding::Exited(_) | ProgramEnding::Signalled { .. }
                    )
                {
                    report.ending = ProgramEnding::Stopped;
                }
                self.report = Some(report);
            }
            BootEvent::Ended(cpu) => self.cpu = Some(cpu),
            BootEvent::Unwritten(error) => drop(self.unwritten.get_or_insert(error)),
            BootEvent::Said(InitMessage::Nesting) => self.nesting = true,
            BootEvent::Said(InitMessage::Started) => drop(self.started.get_or_insert(after)),
            BootEvent::Said(InitMessage::Alive)
            | BootEvent::Panicked
            | BootEvent::Unread(_)
            | BootEvent::End
            | BootEvent::Stop => {}
        }
    }
}

#[cfg(test)]
#[path = "supervise_test.rs"]
mod tests;
