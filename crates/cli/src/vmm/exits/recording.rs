//! Reads the events of a trace buffer while a VMM runs, on a thread of its own, which counts them and keeps no more than
//! the counts. It sleeps between two looks, so that it seldom takes a CPU from the VMM.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::EVENTS;
use super::tally::{Tally, TallyError};
use crate::kvm_trace::{Instance, Line, TracefsError, Unreadable, Whose, parse};

/// How long the thread sleeps when all has been read.
const PAUSE: Duration = Duration::from_millis(10);
/// The longest line that the kernel writes, and more.
const LONGEST: usize = 64 << 10;

/// Why a trace gives no counts.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum TraceError {
    /// There is no trace.
    #[error(transparent)]
    Tracefs(#[from] TracefsError),
    /// Reading failed.
    #[error("the trace cannot be read")]
    Read(#[from] io::Error),
    /// A line is not as the kernel writes it.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// Its events cannot be counted.
    #[error(transparent)]
    Tally(#[from] TallyError),
    /// The buffer was too small for a while.
    #[error("the kernel's buffer had no room for some events")]
    Lost,
    /// The thread that reads panicked.
    #[error("the thread that reads the trace panicked")]
    Panicked,
}

/// A trace that is being read.
#[derive(Debug)]
pub(super) struct Recording {
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<Result<Tally, TraceError>>>,
    instance: Instance,
}

impl Recording {
    /// Records what the calling thread starts from now on.
    pub(super) fn start() -> Result<Self, TraceError> {
        let instance = Instance::new(&EVENTS, Whose::Children)?;
        let pipe = instance.pipe()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let reader = thread::Builder::new().spawn(move || read(pipe, &told))?;
        Ok(Self {
            is_over,
            reader: Some(reader),
            instance,
        })
    }

    /// What was counted until now.
    pub(super) fn finish(mut self) -> Result<Tally, TraceError> {
        self.instance.stop()?;
        let tally = self.join()?;
        match self.instance.lost()? {
            0 => Ok(tally),
            _ => Err(TraceError::Lost),
        }
    }

    fn join(&mut self) -> Result<Tally, TraceError> {
        self.is_over.store(true, Ordering::Release);
        let reader = self.reader.take().ok_or(TraceError::Panicked)?;
        reader.join().map_err(|_| TraceError::Panicked)?
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.reader.is_some() {
            let _ = self.instance.stop();
            // The instance can be removed when the thread has closed the pipe.
            let _ = self.join();
        }
    }
}

/// Reads until all is read and no more comes.
fn read(mut pipe: File, is_over: &AtomicBool) -> Result<Tally, TraceError> {
    let mut lines = Lines::default();
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
#[derive(Debug, Default)]
pub(super) struct Lines {
    tally: Tally,
    /// The beginning of a line whose end has not been read.
    begun: Vec<u8>,
}

impl Lines {
    /// Counts the lines that end in `bytes`.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        // Behind the last end of a line begins another one.
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
            return Err(Unreadable.into());
        }
        Ok(())
    }

    fn count(&mut self, line: &[u8]) -> Result<(), TraceError> {
        match parse(line)? {
            Line::Event(event) => Ok(self.tally.add(event)?),
            Line::Lost => Err(TraceError::Lost),
            Line::Other => Ok(()),
        }
    }

    /// The counts, if the last line has ended.
    pub(super) fn finish(self) -> Result<Tally, TraceError> {
        if self.begun.is_empty() {
            Ok(self.tally)
        } else {
            Err(Unreadable.into())
        }
    }
}

#[cfg(test)]
#[path = "recording_test.rs"]
mod tests;
