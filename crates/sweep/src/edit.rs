//! Faults made by editing the guest memory of a snapshot, without another VMM: a sweep that does not find them is
//! wrong. Each edit says whether this snapshot has what it changes.

use serde::{Deserialize, Serialize};

use crate::memory::GuestMemory;
use crate::ring::{RingError, SplitPlace};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// The device's event index is older than its position: the driver no longer notifies it.
    StaleEventIndex,
    /// The driver's index is that before its last request: the device never sees the request.
    ForgottenRequest,
}

impl Edit {
    /// The name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StaleEventIndex => "stale-event-index",
            Self::ForgottenRequest => "forgotten-request",
        }
    }
}

/// Makes the fault in a snapshot's memory; false if this snapshot has nothing to change.
pub fn edit(
    memory: &GuestMemory,
    place: &SplitPlace,
    event_idx: bool,
    edit: Edit,
) -> Result<bool, RingError> {
    let state = place.read(memory)?;
    let open = state.open(event_idx);
    let (address, value) = match edit {
        Edit::StaleEventIndex if event_idx && open.requests == 0 => {
            (place.avail_event(), state.available.wrapping_sub(2))
        }
        Edit::ForgottenRequest if open.requests != 0 => {
            (place.available_index(), state.available.wrapping_sub(1))
        }
        _ => return Ok(false),
    };
    memory.write_u16(address.unwrap_or(u64::MAX), value)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use tempfile::NamedTempFile;

    use super::*;

    const PLACE: SplitPlace = SplitPlace {
        size: 8,
        available: 0x100,
        used: 0x200,
        seen: 0x300,
    };

    /// A page of memory, and the file that holds it.
    fn memory() -> (NamedTempFile, GuestMemory) {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let memory = GuestMemory::of_file(file.path(), 4096).unwrap();
        (file, memory)
    }

    #[test]
    fn an_edit_changes_only_a_snapshot_that_has_what_it_needs() {
        let (_file, memory) = memory();
        for (fault, requests, event_idx, is_made) in [
            (Edit::StaleEventIndex, 0, true, true),
            (Edit::StaleEventIndex, 1, true, false),
            (Edit::StaleEventIndex, 0, false, false),
            (Edit::ForgottenRequest, 1, false, true),
            (Edit::ForgottenRequest, 0, true, false),
        ] {
            for (address, word) in [
                (PLACE.available + 2, 20 + requests),
                (PLACE.used + 2, 20),
                (PLACE.seen, 20),
                (PLACE.avail_event().unwrap(), 20),
                (PLACE.used_event().unwrap(), 20),
            ] {
                memory.write_u16(address, word).unwrap();
            }
            let before = PLACE.read(&memory).unwrap();
            assert_eq!(
                edit(&memory, &PLACE, event_idx, fault).unwrap(),
                is_made,
                "{fault:?}"
            );
            assert_eq!(PLACE.read(&memory).unwrap() != before, is_made, "{fault:?}");
        }
    }

    #[test]
    fn a_stale_event_index_suppresses_the_next_notification() {
        let (_file, memory) = memory();
        assert!(!PLACE.read(&memory).unwrap().open(true).suppressed);
        edit(&memory, &PLACE, true, Edit::StaleEventIndex).unwrap();
        assert!(PLACE.read(&memory).unwrap().open(true).suppressed);
    }
}
