//! Waits for the report, the end of QEMU or the time limit, whichever comes first. The thread that boots L1 runs
//! this.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::channel::Stream;
use crate::job::Report;

/// A message of a channel's thread to the thread that waits.
#[derive(Debug)]
pub(super) enum Event {
    /// This number of bytes of a stream was read.
    Bytes(Stream, u64),
    /// L1 has reported.
    Report(Report),
    /// QEMU has ended, and used this much CPU time.
    Ended(Duration),
}

/// How long QEMU may take to end after L1 was asked to leave.
const LEAVING: Duration = Duration::from_secs(10);

/// What was received until the end.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub report: Option<Report>,
    pub received: [u64; 3],
    pub cpu: Option<Duration>,
    acknowledged: bool,
}

impl Course {
    /// Returns when QEMU has ended, or at the time limit: then `cpu` is `None` and the caller has to kill QEMU.
    pub fn follow(events: &Receiver<Event>, control: &mut UnixStream, limit: Duration) -> Self {
        let mut course = Self::default();
        let mut deadline = Instant::now() + limit;
        let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
        while let Ok(event) = events.recv_timeout(left(deadline)) {
            course.take(event);
            if course.cpu.is_some() {
                break;
            }
            if course.complete() && !course.acknowledged {
                course.acknowledged = true;
                deadline = Instant::now() + LEAVING;
                // A failure means that L1 has ended already.
                let _ = control.write_all(&[1]);
            }
        }
        course
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
            Event::Report(report) => self.report = Some(report),
            Event::Ended(cpu) => self.cpu = Some(cpu),
        }
    }
}

#[cfg(test)]
#[path = "supervise_test.rs"]
mod tests;
