//! Waits for the first of the report, the end of the VMM, a panic and a time limit. The thread that boots
//! a Linux runs this.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::channel::Stream;
use crate::job::{Message, Report, answer};

/// A message of a channel's thread to the thread that waits.
#[derive(Debug)]
pub(crate) enum Event {
    /// This number of bytes of a stream was read.
    Bytes(Stream, u64),
    /// L1 has sent a message.
    Said(Message),
    /// The console shows that L1's kernel panicked.
    Panicked,
    /// The VMM has ended, and used this much CPU time.
    Ended(Duration),
    /// The host of this VMM's host asks for the program's end.
    Stop,
}

/// How long a boot and a program may take, without the time in which QEMU waited for a CPU of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of QEMU to the start of the program.
    pub boot: Duration,
    /// From the start of the program to its end.
    pub program: Duration,
}

/// How long a Linux may take to kill the program and to send what it has, and how long its VMM may take to end after it
/// was asked to leave; for each Linux that is inside it, as long again.
pub(crate) const LEAVING: Duration = Duration::from_secs(10);
/// How long QEMU may take to end after a panic, with the rest of the trace.
const PANICKING: Duration = Duration::from_secs(3);
/// A limit that no run reaches, and that can be added to the present time.
pub(crate) const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The end of a limit, which moves on by the time in which QEMU waited for a CPU.
struct Deadline<W> {
    at: Instant,
    /// What `of` returned when `at` was set.
    waited: Duration,
    of: W,
}

impl<W: Fn() -> Duration> Deadline<W> {
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

    /// The time that is left. What QEMU waited counts only at the end, so a host that is idle asks once.
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

/// What was received until the end.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub report: Option<Report>,
    pub received: [u64; 3],
    /// CPU time of QEMU; `None` if QEMU has not ended.
    pub cpu: Option<Duration>,
    /// When the program started, from the start of QEMU.
    pub started: Option<Duration>,
    /// Whether a Linux starts another one inside it, and so can be asked to stop before the program has started.
    nesting: bool,
    acknowledged: bool,
    stopped: bool,
    panicked: bool,
}

impl Course {
    /// Returns when the VMM has ended, or when it has to be killed: then `cpu` is `None`. A program that is still
    /// running at its limit is killed in its Linux, so that what it wrote comes back, for which `leaving` is the limit.
    /// `waited` tells how long the VMM has waited for a CPU so far.
    pub fn follow(
        events: &Receiver<Event>,
        control: &mut UnixStream,
        limits: Limits,
        leaving: Duration,
        waited: impl Fn() -> Duration,
    ) -> Self {
        let mut course = Self::default();
        let begin = Instant::now();
        let mut deadline = Deadline::new(waited, limits.boot);
        loop {
            let left = deadline.left();
            // A receiver that finds a message does not look at its time limit, and a program may never stop writing.
            let event = (!left.is_zero()).then(|| events.recv_timeout(left));
            if let Some(Err(RecvTimeoutError::Timeout)) = event {
                continue;
            }
            let event = match event {
                // The end is on its way.
                Some(Ok(Event::Stop)) if course.stopped || course.report.is_some() => continue,
                Some(Ok(Event::Stop)) | None | Some(Err(_)) => {
                    let answers = course.started.is_some() || course.nesting;
                    let running = answers && course.report.is_none();
                    if !running || course.stopped || course.panicked {
                        return course;
                    }
                    course.stopped = true;
                    deadline.restart(leaving);
                    // A failure means that the Linux has ended already.
                    let _ = control.write_all(&[answer::STOP]);
                    continue;
                }
                Some(Ok(event)) => event,
            };
            match &event {
                Event::Said(Message::Started) => {
                    course.started = Some(begin.elapsed());
                    deadline.restart(limits.program);
                }
                Event::Panicked => {
                    course.panicked = true;
                    if deadline.left() > PANICKING {
                        deadline.restart(PANICKING);
                    }
                }
                _ => {}
            }
            course.take(event);
            if course.cpu.is_some() {
                return course;
            }
            if course.complete() && !course.acknowledged {
                course.acknowledged = true;
                deadline.restart(leaving);
                let _ = control.write_all(&[answer::LEAVE]);
            }
        }
    }

    /// Takes the messages that the threads sent up to the end of QEMU.
    pub fn drain(&mut self, events: &Receiver<Event>) {
        events.try_iter().for_each(|event| self.take(event));
    }

    /// Whether L1's report came and all bytes that it counts were read.
    pub fn complete(&self) -> bool {
        let all = |report: &Report| {
            report
                .sent
                .iter()
                .zip(self.received)
                .all(|(sent, received)| received >= *sent)
        };
        self.report.as_ref().is_some_and(all)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Bytes(stream, length) => self.received[stream as usize] += length,
            Event::Said(Message::Report(report)) => self.report = Some(report),
            Event::Ended(cpu) => self.cpu = Some(cpu),
            Event::Said(Message::Nesting) => self.nesting = true,
            Event::Said(Message::Started) | Event::Panicked | Event::Stop => {}
        }
    }
}

#[cfg(test)]
#[path = "supervise_test.rs"]
mod tests;
