//! Counts the exits of a VMM that knows nothing of it: how often its guest leaves the CPU in each row, and how often that
//! goes on to the VMM.
//!
//! One further boot of each VMM, whose times are thrown away, has the word `mark`: the image brackets each batch by writes
//! to port 0x80. Meanwhile `recording` reads the kernel's events of the VMM's threads (`crate::kvm_trace`), `tally` counts those between two marks, and `counted` makes numbers of one operation
//! of them. This takes root with tracefs.

mod counted;
mod recording;
mod tally;

use self::counted::counted;
use self::recording::Recording;
use super::document::Document;
use crate::columns::CountedRows;
use crate::kvm_trace::{Instance, Wanted, Whose};

/// The events. Of writes to ports only those to the port of marks are recorded.
const EVENTS: [Wanted; 3] = [
    Wanted {
        event: "kvm_exit",
        filter: None,
    },
    Wanted {
        event: "kvm_userspace_exit",
        filter: None,
    },
    Wanted {
        event: "kvm_pio",
        filter: Some("port == 128"),
    },
];

/// The image's word for marks.
pub(super) const WORD: &str = "mark";

/// Why exits cannot be counted here, if they cannot.
pub(super) fn obstacle() -> Option<String> {
    Instance::new(&EVENTS, Whose::Children).err().map(in_words)
}

/// Counts the exits of the VMM that `boot` runs on the calling thread; or says why they are not known.
pub(super) fn count(
    boot: impl FnOnce() -> Result<Document, String>,
) -> Result<CountedRows, String> {
    let recording = Recording::start().map_err(in_words)?;
    let document =
        boot().map_err(|reason| format!("the boot that counts them failed: {reason}"))?;
    let tally = recording.finish().map_err(in_words)?;
    counted(&document, &tally.finish()).map_err(str::to_owned)
}

/// The error with its causes.
fn in_words(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}
