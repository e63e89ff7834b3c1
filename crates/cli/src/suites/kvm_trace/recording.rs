//! Reads the events of a trace buffer while a VMM runs, on its own thread, which counts them and keeps no more than the
//! counts. It sleeps between two looks, so that it seldom takes a CPU from the VMM.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vmbell_report::Reasons;

use super::instance::{TraceInstance, TracedThreads, TracefsError, WantedEvent};
use super::line::{KvmEvent, TraceLine, UnreadableLine, parse};

/// How long the thread sleeps when all has been read.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest line that the kernel writes, and more.
const LONGEST: usize = 64 << 10;
/// The most reasons of exits that are told apart: a kernel has fewer.
const REASONS: usize = 256;

/// Why a trace gives no counts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// There is no trace.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Reading failed.
    #[error("the trace cannot be read")]
    Read(#[from] io::Error),
    /// A line is not as the kernel writes it.
    #[error(transparent)]
    Unreadable(#[from] UnreadableLine),
    /// Events of a thread do not follow each other.
    #[error("the trace is out of order")]
    OutOfOrder,
    /// More of something than any guest causes.
    #[error("the trace has more than {most} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many are counted.
        most: usize,
    },
    /// The buffer was too small for a while.
    #[error("the kernel's buffer had no room for some events")]
    Lost,
    /// The thread that reads panicked.
    #[error("the thread that reads the trace panicked")]
    Panicked,
}

/// What counts events.
pub(crate) trait EventTally: Send + 'static {
    /// Counts an event; each thread's come in their order.
    fn add(&mut self, event: KvmEvent<'_>) -> Result<(), TraceError>;
}

/// A trace that is being read and counted.
#[derive(Debug)]
pub(crate) struct TraceRecording<T> {
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<Result<T, TraceError>>>,
    instance: TraceInstance,
}

impl<T: EventTally> TraceRecording<T> {
    /// Records these events from now on, and counts them by `tally`.
    pub(crate) fn start(
        wanted: &[WantedEvent],
        whose: TracedThreads,
        tally: T,
    ) -> Result<Self, TraceError> {
        let instance = TraceInstance::new(wanted, whose)?;
        let pipe = instance.pipe()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let reader = thread::Builder::new().spawn(move || read(pipe, &told, tally))?;
        Ok(Self {
            is_over,
            reader: Some(reader),
            instance,
        })
    }

    /// What was counted until now.
    pub(crate) fn finish(mut self) -> Result<T, TraceError> {
        self.instance.stop()?;
        let tally = self.join()?;
        match self.instance.lost()? {
            0 => Ok(tally),
            _ => Err(TraceError::Lost),
        }
    }
}

impl<T> TraceRecording<T> {
    fn join(&mut self) -> Result<T, TraceError> {
        self.is_over.store(true, Ordering::Release);
        let reader = self.reader.take().ok_or(TraceError::Panicked)?;
        reader.join().map_err(|_| TraceError::Panicked)?
    }
}

impl<T> Drop for TraceRecording<T> {
    fn drop(&mut self) {
        if self.reader.is_some() {
            let _ = self.instance.stop();
            // The instance can be removed when the thread has closed the pipe.
            let _ = self.join();
        }
    }
}

/// Counts a reason.
pub(crate) fn count(reasons: &mut Reasons, reason: &str) -> Result<(), TraceError> {
    if let Some(count) = reasons.get_mut(reason) {
        *count += 1;
        return Ok(());
    }
    bounded(reasons.len(), "reasons", REASONS)?;
    reasons.insert(reason.to_owned(), 1);
    Ok(())
}

/// Fails if there are `most` of something already.
pub(crate) const fn bounded(
    count: usize,
    what: &'static str,
    most: usize,
) -> Result<(), TraceError> {
    if count >= most {
        return Err(TraceError::TooMany { what, most });
    }
    Ok(())
}

/// Reads until all is read and no more comes.
fn read<T: EventTally>(mut pipe: File, is_over: &AtomicBool, tally: T) -> Result<T, TraceError> {
    let mut lines = TraceLines::new(tally);
    let mut chunk = [0; 16 << 10];
    loop {
        // What was recorded before the flag was set is read after it was seen.
        let is_last = is_over.load(Ordering::Acquire);
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => lines.add(&chunk[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        if is_last {
            return lines.finish();
        }
        thread::sleep(PAUSE);
    }
}

/// Puts lines together from what is read.
#[derive(Debug)]
pub(crate) struct TraceLines<T> {
    tally: T,
    /// The beginning of a line whose end has not been read.
    begun: Vec<u8>,
}

impl<T: EventTally> TraceLines<T> {
    pub(crate) const fn new(tally: T) -> Self {
        let begun = Vec::new();
        Self { tally, begun }
    }

    /// Counts the lines that end in `bytes`.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        // After the last end of a line another one begins.
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            if self.begun.is_empty() {
                self.count(piece)?;
            } else {
                self.begun.extend_from_slice(piece);
                let line = std::mem::take(&mut self.begun);
                self.count(&line)?;
            }
        }
        self.begun.extend_from_slice(last);
        if self.begun.len() > LONGEST {
            return Err(UnreadableLine.into());
        }
        Ok(())
    }

    fn count(&mut self, line: &[u8]) -> Result<(), TraceError> {
        match parse(line)? {
            TraceLine::Event(event) => self.tally.add(event),
            TraceLine::Lost => Err(TraceError::Lost),
            TraceLine::Other => Ok(()),
        }
    }

    /// The counts, if the last line has ended.
    pub(crate) fn finish(self) -> Result<T, TraceError> {
        if self.begun.is_empty() {
            Ok(self.tally)
        } else {
            Err(UnreadableLine.into())
        }
    }
}

#[cfg(test)]
#[path = "recording_test.rs"]
mod tests;
