//! Waits for whatever comes first: the report, the end of QEMU, the time limit.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::channel::Stream;
use crate::job::Report;

/// What the threads tell.
#[derive(Debug)]
pub(super) enum Event {
    /// So many bytes of a stream were read.
    Bytes(Stream, u64),
    /// L1 has reported.
    Report(Report),
    /// QEMU has ended and used that much CPU time.
    Ended(Duration),
}

/// How long QEMU may take to end once L1 was told to leave.
const LEAVING: Duration = Duration::from_secs(10);

/// What was seen until the end.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub report: Option<Report>,
    pub received: [u64; 3],
    pub cpu: Option<Duration>,
    acknowledged: bool,
}

impl Course {
    /// Returns when QEMU has ended, or when time is up: then `cpu` is `None` and it has to be killed.
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
                // It fails only if L1 is gone, which is what it asks for.
                let _ = control.write_all(&[1]);
            }
        }
        course
    }

    /// Takes what the threads had still to say when QEMU was gone.
    pub fn drain(&mut self, events: &Receiver<Event>) {
        events.try_iter().for_each(|event| self.take(event));
    }

    /// Whether L1 has said all and we have read it.
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
