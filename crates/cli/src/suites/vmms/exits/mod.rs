//! Counts a VMM's exits without its help: how often its guest leaves the CPU in each row, and how often control returns
//! to the VMM.
//!
//! Each VMM boots once more, with the word `mark`: the image brackets each batch by writes to port 0x80. The times of
//! this boot are discarded. Meanwhile `tally` counts the kernel's events on the VMM's threads between two marks
//! (`crate::suites::kvm_trace`), from which exits per operation are computed. This needs root and tracefs.

mod tally;

use std::collections::BTreeMap;

use self::tally::{MarkedBatches, MarkedTally};
use super::document::{BatchTicks, BootDocument};
use crate::output::text::chain;
use crate::suites::boots::{CountedBatch, CountedRows};
use crate::suites::kvm_trace::{TraceInstance, TraceRecording, TracedThreads, WantedEvent};

/// The events. Port writes are recorded only for the port of marks.
const EVENTS: [WantedEvent; 3] = [
    WantedEvent::all("kvm_exit"),
    WantedEvent::all("kvm_userspace_exit"),
    WantedEvent::only("kvm_pio", "port == 128"),
];

/// The image's word that switches marks on.
pub(super) const WORD: &str = "mark";

/// Why exits cannot be counted here; `None` if they can.
pub(super) fn obstacle() -> Option<String> {
    TraceInstance::new(&EVENTS, TracedThreads::Children)
        .err()
        .map(chain)
}

/// Counts the exits of the VMM that `boot` runs on the calling thread, or returns why they are unknown.
pub(super) fn count(
    boot: impl FnOnce() -> Result<BootDocument, String>,
) -> Result<CountedRows, String> {
    let recording = TraceRecording::start(&EVENTS, TracedThreads::Children, MarkedTally::default())
        .map_err(chain)?;
    let document =
        boot().map_err(|reason| format!("the boot that counts them failed: {reason}"))?;
    let tally = recording.finish().map_err(chain)?;
    counted(&document, &tally.finish()).map_err(str::to_owned)
}

/// The counts of the rows in `document`, from the marks of its boot.
fn counted(
    document: &BootDocument,
    marked: &BTreeMap<u8, MarkedBatches>,
) -> Result<CountedRows, &'static str> {
    if marked.is_empty() {
        return Err("the trace has no marks from the image");
    }
    let mut rows = Vec::new();
    for row in &document.rows {
        let Ok(batches) = &row.result else { continue };
        let same = document.rows.iter().filter(|other| other.mark == row.mark);
        let counted = match row.mark {
            Some(mark) if same.count() == 1 => of_row(batches, marked.get(&mark)),
            _ => Err("it has no mark, or shares one".to_owned()),
        };
        rows.push((row.name.clone(), counted));
    }
    Ok(rows)
}

fn of_row(
    batches: &BatchTicks,
    marked: Option<&MarkedBatches>,
) -> Result<Vec<CountedBatch>, String> {
    let seen = marked.map_or(0, |marked| marked.batches.len());
    if let Some(spoilt) = marked.and_then(|marked| marked.spoilt) {
        return Err(spoilt.to_owned());
    }
    let wanted = batches.ticks.len();
    let Some(marked) = marked.filter(|_| seen == wanted) else {
        return Err(format!("{seen} of its {wanted} batches are in the trace"));
    };
    #[allow(clippy::cast_precision_loss, reason = "far fewer operations than 2^53")]
    let operations = batches.operations as f64;
    let of_batch = |reasons: &vmbell_report::ReasonsOfRun| CountedBatch {
        operations,
        reasons: reasons.clone(),
        counts: Vec::new(),
        events: Vec::new(),
    };
    Ok(marked.batches.iter().map(of_batch).collect())
}

#[cfg(test)]
#[path = "counted_test.rs"]
mod tests;
