//! Counts the exits of each marked batch.
//!
//! The guest writes a row's mark to port 0x80 before a batch, and 0 after it. Each of these writes is itself an exit
//! and a return to the VMM, and neither is counted: the batch begins after the return for its mark, and ends before the
//! exit for the 0. Only the thread that writes the marks counts, which is the measuring vCPU. If a guest writes other
//! values to the port, it spoils only its own rows.

use std::collections::BTreeMap;

use crate::suites::kvm_trace::{self, KvmEvent, KvmEventKind, TraceError, bounded, count};
use vmbell_report::ReasonsOfRun;

/// How many threads, and batches of a row, are counted at most.
const THREADS: usize = 256;
const BATCHES: usize = 4096;

/// What happened in the batches of one mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkedBatches {
    /// The batches, in order.
    pub(super) batches: Vec<ReasonsOfRun>,
    /// Why the batches are unusable.
    pub(super) spoilt: Option<&'static str>,
}

/// What happened in all batches.
#[derive(Debug, Default)]
pub(super) struct MarkedTally {
    threads: BTreeMap<u32, ThreadTally>,
    marked: BTreeMap<u8, MarkedBatches>,
}

/// The state of a thread.
#[derive(Debug, Default)]
struct ThreadTally {
    /// The sequence number of the thread's last event.
    sequence: u64,
    /// Whether the thread's last exit was the write of a mark.
    at_mark: bool,
    /// The batch that the thread is in.
    open: Option<OpenBatch>,
}

#[derive(Debug)]
struct OpenBatch {
    mark: u8,
    batch: ReasonsOfRun,
    /// The reason of the last exit in the batch.
    last: Option<String>,
}

impl kvm_trace::EventTally for MarkedTally {
    fn add(&mut self, event: KvmEvent<'_>) -> Result<(), TraceError> {
        if !self.threads.contains_key(&event.thread) {
            bounded(self.threads.len(), "threads", THREADS)?;
        }
        let thread = self.threads.entry(event.thread).or_default();
        if event.sequence <= thread.sequence {
            return Err(TraceError::OutOfOrder);
        }
        thread.sequence = event.sequence;
        match event.what {
            KvmEventKind::Exit(reason) => {
                thread.at_mark = false;
                if let Some(open) = &mut thread.open {
                    count(&mut open.batch.exits, reason)?;
                    open.last = Some(reason.to_owned());
                }
            }
            KvmEventKind::Userspace(reason) => {
                if let (Some(open), false) = (&mut thread.open, thread.at_mark) {
                    count(&mut open.batch.userspace, reason)?;
                }
            }
            KvmEventKind::Mark(value) => {
                thread.at_mark = true;
                let open = thread.open.take();
                let mark = u8::try_from(value).ok();
                thread.open = mark.filter(|mark| *mark != 0).map(OpenBatch::new);
                if let Some(open) = open {
                    self.close(open, mark == Some(0))?;
                }
            }
            // A recording for this purpose does not have these events.
            KvmEventKind::Port(_)
            | KvmEventKind::MmioWrite(_)
            | KvmEventKind::MmioRead(_)
            | KvmEventKind::Msr(_)
            | KvmEventKind::Msi => {}
        }
        Ok(())
    }
}

impl MarkedTally {
    /// Keeps a batch that has ended, without the exit for its end mark.
    fn close(&mut self, mut open: OpenBatch, is_whole: bool) -> Result<(), TraceError> {
        let marked = self.marked.entry(open.mark).or_default();
        let own = open
            .last
            .and_then(|reason| open.batch.exits.get_mut(&reason));
        match own {
            Some(own) if is_whole => *own -= 1,
            _ => {
                marked.spoilt = Some("another mark is within one of its batches");
                return Ok(());
            }
        }
        bounded(marked.batches.len(), "batches of a row", BATCHES)?;
        open.batch.exits.retain(|_, count| *count > 0);
        marked.batches.push(open.batch);
        Ok(())
    }

    /// The counts, by mark.
    pub(super) fn finish(mut self) -> BTreeMap<u8, MarkedBatches> {
        for open in self.threads.into_values().filter_map(|thread| thread.open) {
            let marked = self.marked.entry(open.mark).or_default();
            marked.spoilt = Some("one of its batches does not end");
        }
        self.marked
    }
}

impl OpenBatch {
    fn new(mark: u8) -> Self {
        Self {
            mark,
            batch: ReasonsOfRun::default(),
            last: None,
        }
    }
}

#[cfg(test)]
#[path = "tally_test.rs"]
mod tests;
