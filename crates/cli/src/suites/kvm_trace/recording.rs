//! Reads the events of a trace buffer while a VMM runs, on its own thread, which keeps only counts. The thread sleeps
//! between reads, so that it rarely takes a CPU from the VMM.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vmbell_report::Reasons;

use super::instance::{TraceInstance, TracedThreads, TracefsError, WantedEvent};
use super::line::{KvmEvent, TraceLine, UnreadableLine, parse};

/// How long the thread sleeps after it has read everything.
const PAUSE: Duration = Duration::from_millis(10);
/// More than the longest line that the kernel writes.
const LONGEST: usize = 64 << 10;
/// How many exit reasons can be distinguished. Kernels have fewer.
const REASONS: usize = 256;

/// Why a trace gives no counts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    /// The trace could not be set up.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Reading failed.
    #[error("the trace cannot be read")]
    Read(#[from] io::Error),
    /// A line is in an unknown form.
    #[error(transparent)]
    Unreadable(#[from] UnreadableLine),
    /// A thread's events are out of order.
    #[error("the trace is out of order")]
    OutOfOrder,
    /// The trace has more of something than any guest causes.
    #[error("the trace has more than {most} {what}")]
    TooMany {
        /// The name of what exceeds the limit.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// The buffer was too small for a while.
    #[error("the kernel's buffer had no room for some events")]
    Lost,
    /// The thread that reads panicked.
    #[error("the thread that reads the trace panicked")]
    Panicked,
}

/// Counts events.
pub(crate) trait EventTally: Send + 'static {
    /// Counts an event. Each thread's events come in order.
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
    /// Records these events from now on, and counts them with `tally`.
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

    /// Stops recording and returns the counts.
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
            // The instance can be removed once the thread has closed the pipe.
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

/// Fails if `most` of something are counted already.
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

/// Reads until the recording is over and everything has been read.
fn read<T: EventTally>(mut pipe: File, is_over: &AtomicBool, tally: T) -> Result<T, TraceError> {
    let mut lines = TraceLines::new(tally);
    let mut chunk = [0; 16 << 10];
    loop {
        // The flag is read first: everything recorded before it was set is read after it.
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

/// Assembles lines from the pieces that are read.
#[derive(Debug)]
pub(crate) struct TraceLines<T> {
    tally: T,
    /// An incomplete line.
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
        // After the last line end, the next line begins.
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

    /// The counts; fails if the last line is incomplete.
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
