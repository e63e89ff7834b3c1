//! Waits for the first of the report, the end of the VMM, a panic and a time limit. The thread that boots
//! a Linux runs this.

use std::cell::Cell;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::channel::{BootEvent, ProgramStream};
use crate::job::{InitMessage, ProgramEnding, RunReport, answer};

/// How long a boot and a program may take, without the time in which QEMU waited for a CPU of the host, and without that in which
/// this process was stopped or the host slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLimits {
    /// From the start of QEMU to the start of the program.
    pub boot: Duration,
    /// From the start of the program to its end.
    pub program: Duration,
}

/// How long a Linux may take to react, without the time in which its VMM waited for a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For the program to end by itself, after it was asked to.
    pub ending: Duration,
    /// To kill the program and to send what it has, and then, for its VMM, to end.
    pub leaving: Duration,
    /// Whether the VMM's end is waited for when everything has come. One that runs in L1 ends with L1.
    pub to_the_end: bool,
    /// To say that it still runs, while the program does. It is asked again as long after each answer.
    pub answering: Duration,
    /// How long the thread that waits sleeps at most. By that it notices that this process was stopped meanwhile.
    pub looking: Duration,
}

/// [`Patience::ending`], and for each Linux inside as long again: a program may have a report to write.
pub(crate) const ENDING: Duration = Duration::from_secs(10);
/// [`Patience::leaving`], and for each Linux inside as long again.
pub(crate) const LEAVING: Duration = Duration::from_secs(10);
/// [`Patience::answering`]: only a kernel that hangs takes so long.
pub(crate) const ANSWERING: Duration = Duration::from_secs(60);
/// [`Patience::looking`].
pub(crate) const LOOKING: Duration = Duration::from_secs(1);
/// How long QEMU may take to end after a panic, with the rest of the trace.
const PANICKING: Duration = Duration::from_secs(3);
/// A limit that no run reaches, and that can be added to the present time.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The end of a limit, which moves on by the time that does not count.
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

    /// The time that is left. What does not count is asked for only at the end, so a host that is idle asks once.
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

/// Asks a Linux again and again whether it still runs, while its program does.
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

    /// The Linux runs.
    fn beat(&mut self) {
        self.asked = false;
        self.deadline.restart(self.limit);
    }

    fn end(&mut self) {
        self.deadline.restart(LONGEST);
    }

    /// The time until something is to be done, after a question if it is time for one; `None` if there was no answer.
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

/// What was received until the end.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub report: Option<RunReport>,
    pub received: [u64; 3],
    /// CPU time of QEMU; `None` if QEMU has not ended.
    pub cpu: Option<Duration>,
    /// When the program started, from the start of QEMU.
    pub started: Option<Duration>,
    /// Whether a Linux starts another one inside it, and so can be asked to stop before the program has started.
    nesting: bool,
    acknowledged: bool,
    /// Whether the program was asked to end.
    asked: bool,
    stopped: bool,
    panicked: bool,
    /// Why the first sink that failed did.
    pub unwritten: Option<io::Error>,
    /// Whether the Linux was asked and did not answer in time.
    pub silent: bool,
}

impl Course {
    /// Returns when the VMM has ended, or when it has to be killed: then `cpu` is `None`. A program that is still
    /// running at its limit is asked to end, and then killed, in its Linux, so that what it wrote comes back.
    /// `waited` tells how long the VMM has waited for a CPU so far.
    pub fn follow(
        events: &Receiver<BootEvent>,
        control: &mut UnixStream,
        limits: TimeLimits,
        patience: Patience,
        waited: impl Fn() -> Duration,
    ) -> Self {
        let mut course = Self::default();
        let begin = Instant::now();
        // The clock goes on in a process that is stopped, with its VMM, and does not where the machine sleeps.
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
            // A receiver that finds a message does not look at its time limit, and a program may never stop writing.
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
                // The end is on its way.
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

    /// Whether the program may still be asked to end.
    const fn may_ask(&self) -> bool {
        !self.asked && !self.stopped && !self.panicked
    }

    /// Takes the messages that the threads sent up to the end of QEMU, so long after its start.
    pub fn drain(&mut self, events: &Receiver<BootEvent>, after: Duration) {
        events.try_iter().for_each(|event| self.take(event, after));
    }

    /// Whether L1's report came and all bytes that it counts were read.
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
                // Whatever a program does that is asked to end: it had not ended before its limit.
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
