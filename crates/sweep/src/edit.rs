//! Faults made by editing the guest memory of a snapshot, without another VMM: a sweep that does not find them is
//! wrong. Each edit says whether this snapshot has what it changes.

use serde::{Deserialize, Serialize};

use crate::memory::GuestMemory;
use crate::ring::{
    OpenRing, PackedPlace, PackedState, RingError, RingPlace, SplitPlace, SplitState,
};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Edit {
    /// The device's event index is older than its position: the driver no longer notifies it.
    StaleEventIndex,
    /// The driver's last request is no longer available: the device never sees it.
    ForgottenRequest,
    /// The device answers the next descriptor without having done anything for it.
    RepeatedAnswer,
    /// The wrap counter of the device's event index in a packed ring is that of another lap.
    ForgottenWrapCounter,
}

impl Edit {
    /// The name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StaleEventIndex => "stale-event-index",
            Self::ForgottenRequest => "forgotten-request",
            Self::RepeatedAnswer => "repeated-answer",
            Self::ForgottenWrapCounter => "forgotten-wrap-counter",
        }
    }
}

/// Makes the fault in a snapshot's memory; false if this snapshot has nothing to change.
pub fn edit(
    memory: &GuestMemory,
    place: &RingPlace,
    event_idx: bool,
    edit: Edit,
) -> Result<bool, RingError> {
    let open = place.read(memory)?.open(event_idx);
    let words = match place {
        RingPlace::Split(place) => split(&place.read(memory)?, place, open, event_idx, edit),
        RingPlace::Packed(place) => packed(&place.read(memory)?, place, open, event_idx, edit),
    };
    for (address, value) in words.iter().flatten() {
        memory.write_u16(*address, *value)?;
    }
    Ok(words.is_some())
}

/// The words that make a fault in a split ring, with their addresses.
fn split(
    state: &SplitState,
    place: &SplitPlace,
    open: OpenRing,
    event_idx: bool,
    edit: Edit,
) -> Option<Vec<(u64, u16)>> {
    Some(match edit {
        Edit::StaleEventIndex if event_idx && open.requests == 0 => {
            vec![(place.avail_event()?, state.available.wrapping_sub(2))]
        }
        Edit::ForgottenRequest if open.requests != 0 => {
            vec![(place.available_index()?, state.available.wrapping_sub(1))]
        }
        // A VMM refuses a used index beyond its own position, and there is no wrap counter.
        _ => return None,
    })
}

/// The words that make a fault in a packed ring, with their addresses.
fn packed(
    state: &PackedState,
    place: &PackedPlace,
    open: OpenRing,
    event_idx: bool,
    edit: Edit,
) -> Option<Vec<(u64, u16)>> {
    /// In a position, and in a descriptor's flags.
    const WRAP: u16 = 1 << 15;
    const AVAILABLE: u16 = 1 << 7;
    /// The device wants a notification at a position.
    const AT_POSITION: u16 = 2;
    let [available, used, ..] = state.words();
    let at_position = |position| {
        vec![
            (place.device, position),
            (place.device_flags(), AT_POSITION),
        ]
    };
    Some(match edit {
        Edit::StaleEventIndex if event_idx && open.requests == 0 => {
            at_position(state.back(state.back(available)))
        }
        Edit::ForgottenWrapCounter if event_idx && open.requests == 0 => {
            at_position(available ^ WRAP)
        }
        Edit::ForgottenRequest if open.requests != 0 => {
            let last = state.back(available);
            let flags = if last & WRAP == 0 { AVAILABLE } else { 0 };
            vec![(place.flags(last), flags)]
        }
        Edit::RepeatedAnswer if open.answers == 0 => {
            let flags = if used & WRAP == 0 {
                0
            } else {
                WRAP | AVAILABLE
            };
            vec![(place.flags(used), flags)]
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tempfile::NamedTempFile;

    use super::*;

    const SPLIT: SplitPlace = SplitPlace {
        size: 8,
        available: 0x100,
        used: 0x200,
        seen: 0x300,
    };
    const PLACE: RingPlace = RingPlace::Split(SPLIT);
    const PACKED: PackedPlace = PackedPlace {
        size: 8,
        chain: 1,
        descriptors: 0x100,
        driver: 0x200,
        device: 0x204,
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
                (SPLIT.available + 2, 20 + requests),
                (SPLIT.used + 2, 20),
                (SPLIT.seen, 20),
                (SPLIT.avail_event().unwrap(), 20),
                (SPLIT.used_event().unwrap(), 20),
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

    #[test]
    fn a_packed_ring_is_edited_at_the_drivers_and_the_devices_position() {
        // The driver is at descriptor 1 of the second lap, where the wrap counter is 0.
        for (requests, fault, is_made, expected) in [
            (0, Edit::StaleEventIndex, true, (0, 0, true)),
            (0, Edit::ForgottenWrapCounter, true, (0, 0, true)),
            (0, Edit::ForgottenRequest, false, (0, 0, false)),
            (0, Edit::RepeatedAnswer, true, (0, 1, true)),
            (1, Edit::StaleEventIndex, false, (1, 0, false)),
            (1, Edit::ForgottenRequest, true, (0, 0, true)),
            (1, Edit::RepeatedAnswer, true, (0, 1, false)),
        ] {
            let (_file, memory) = memory();
            let place = RingPlace::Packed(PACKED);
            let used = if requests == 0 { 1 } else { 0 };
            for position in 0..8_u16 {
                // All others were answered in the first lap.
                memory.write_u16(PACKED.flags(position), 0x8080).unwrap();
            }
            memory
                .write_u16(PACKED.flags(0), if requests == 0 { 0 } else { 0x8000 })
                .unwrap();
            memory.write_u16(PACKED.seen, used).unwrap();
            memory.write_u16(PACKED.device, 1).unwrap();
            memory.write_u16(PACKED.device_flags(), 2).unwrap();
            let open = || {
                let open = place.read(&memory).unwrap().open(true);
                (open.requests, open.answers, open.suppressed)
            };
            assert_eq!(open(), (requests, 0, false), "{fault:?}");
            assert_eq!(
                edit(&memory, &place, true, fault).unwrap(),
                is_made,
                "{fault:?}"
            );
            assert_eq!(open(), expected, "{requests} {fault:?}");
        }
    }
}
