//! The split virtqueue (virtio 1.2, 2.7).

use serde::{Deserialize, Serialize};

use super::error::{MAX_SIZE, RingError};
use super::open::OpenRing;
use crate::memory::GuestMemory;

/// Where a split virtqueue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitPlace {
    /// The number of descriptors.
    pub size: u16,
    /// The guest-physical address of the available ring.
    pub available: u64,
    /// The guest-physical address of the used ring.
    pub used: u64,
    /// The guest-physical address of the number of answers that the driver has taken, in two bytes.
    pub seen: u64,
}

/// The words of a split virtqueue, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitState {
    /// The number of descriptors.
    pub size: u16,
    /// The driver's index.
    pub available: u16,
    /// The device's index.
    pub used: u16,
    /// The number of answers that the driver has taken, modulo 65536.
    pub seen: u16,
    /// The request after which the device wants a notification (EVENT_IDX).
    pub avail_event: u16,
    /// The answer after which the driver wants an interrupt (EVENT_IDX).
    pub used_event: u16,
}

/// The offset of a ring's index, and that of its first entry.
const INDEX: u64 = 2;
const ENTRIES: u64 = 4;
const AVAILABLE_ENTRY: u64 = 2;
const USED_ENTRY: u64 = 8;

impl SplitPlace {
    /// Reads the words, each once.
    pub fn read(&self, memory: &GuestMemory) -> Result<SplitState, RingError> {
        let size = self.checked_size()?;
        let [available, used, avail_event, used_event] = [
            self.available.checked_add(INDEX),
            self.used.checked_add(INDEX),
            self.avail_event(),
            self.used_event(),
        ]
        .map(|address| memory.read_u16(address.unwrap_or(u64::MAX)));
        let state = SplitState {
            size,
            available: available?,
            used: used?,
            seen: memory.read_u16(self.seen)?,
            avail_event: avail_event?,
            used_event: used_event?,
        };
        state.checked()
    }

    /// The address of `avail_event`.
    pub fn avail_event(&self) -> Option<u64> {
        self.used
            .checked_add(ENTRIES + USED_ENTRY * u64::from(self.size))
    }

    /// The address of `used_event`.
    pub fn used_event(&self) -> Option<u64> {
        self.available
            .checked_add(ENTRIES + AVAILABLE_ENTRY * u64::from(self.size))
    }

    /// The address of the driver's index.
    pub fn available_index(&self) -> Option<u64> {
        self.available.checked_add(INDEX)
    }

    fn checked_size(&self) -> Result<u16, RingError> {
        match self.size.is_power_of_two() && self.size <= MAX_SIZE {
            true => Ok(self.size),
            false => Err(RingError::Size {
                size: self.size,
                chain: 1,
            }),
        }
    }
}

impl SplitState {
    /// Refuses indexes that no driver and device produce together.
    fn checked(self) -> Result<Self, RingError> {
        let open = self.open(false);
        match u32::from(open.requests) + u32::from(open.answers) <= u32::from(self.size) {
            true => Ok(self),
            false => Err(RingError::Indexes {
                size: self.size,
                available: self.available,
                used: self.used,
                seen: self.seen,
            }),
        }
    }

    /// What is open. With EVENT_IDX, the driver notifies the device of its next request only if `avail_event` is the
    /// current index (virtio 1.2, 2.7.10).
    pub fn open(&self, event_idx: bool) -> OpenRing {
        let requests = self.available.wrapping_sub(self.used);
        OpenRing {
            requests,
            answers: self.used.wrapping_sub(self.seen),
            suppressed: event_idx && requests == 0 && self.avail_event != self.available,
        }
    }

    /// Whether the device has taken an open request, by its position in `avail_event`.
    pub fn taken(&self, event_idx: bool) -> Option<bool> {
        let requests = self.open(event_idx).requests;
        let position = self.avail_event.wrapping_sub(self.used);
        (event_idx && requests != 0 && position <= requests).then_some(position != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;
    use crate::memory::MemoryError;

    const PLACE: SplitPlace = SplitPlace {
        size: 8,
        available: 0x100,
        used: 0x200,
        seen: 0x300,
    };

    fn memory() -> (NamedTempFile, GuestMemory) {
        let file = NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let memory = GuestMemory::of_file(file.path(), 4096).unwrap();
        (file, memory)
    }

    fn set(memory: &GuestMemory, words: [u16; 5]) {
        let places = [0x102, 0x202, 0x300, 0x200 + 4 + 64, 0x100 + 4 + 16];
        for (place, word) in places.into_iter().zip(words) {
            memory.write_u16(place, word).unwrap();
        }
    }

    #[test]
    fn the_device_has_taken_what_its_event_index_has_passed() {
        let (_file, memory) = memory();
        for (avail_event, event_idx, taken) in [
            (10, true, Some(false)),
            (11, true, Some(true)),
            (12, true, Some(true)),
            (13, true, None),
            (9, true, None),
            (11, false, None),
        ] {
            set(&memory, [12, 10, 9, avail_event, 9]);
            let state = PLACE.read(&memory).unwrap();
            let open = state.open(event_idx);
            assert_eq!(
                (open.requests, open.answers, open.suppressed),
                (2, 1, false)
            );
            assert_eq!(state.taken(event_idx), taken, "{avail_event} {event_idx}");
        }
    }

    #[test]
    fn a_closed_ring_with_another_event_index_is_suppressed() {
        let (_file, memory) = memory();
        for (avail_event, event_idx, suppressed) in [
            (12, true, false),
            (11, true, true),
            (13, true, true),
            (11, false, false),
        ] {
            set(&memory, [12, 12, 12, avail_event, 0]);
            let open = PLACE.read(&memory).unwrap().open(event_idx);
            assert_eq!(open.suppressed, suppressed, "{avail_event} {event_idx}");
            assert_eq!(open.is_open(false), suppressed);
        }
    }

    #[test]
    fn addresses_at_the_end_of_memory_are_refused() {
        let (_file, memory) = memory();
        for place in [
            SplitPlace {
                available: 4094,
                ..PLACE
            },
            SplitPlace {
                used: u64::MAX - 1,
                ..PLACE
            },
            SplitPlace {
                seen: 4095,
                ..PLACE
            },
        ] {
            let error = place.read(&memory).unwrap_err();
            assert!(
                matches!(error, RingError::Memory(MemoryError::Outside { .. })),
                "{error}"
            );
        }
        for size in [0, 3, MAX_SIZE + 1] {
            let place = SplitPlace { size, ..PLACE };
            assert!(matches!(place.read(&memory), Err(RingError::Size { .. })));
        }
    }

    proptest! {
        #[test]
        fn open_work_is_counted_across_the_wrap(seen: u16, answers in 0..9_u16, requests in 0..9_u16) {
            let (_file, memory) = memory();
            let used = seen.wrapping_add(answers);
            set(&memory, [used.wrapping_add(requests), used, seen, 0, 0]);
            match PLACE.read(&memory) {
                Ok(state) => {
                    prop_assert!(answers + requests <= 8);
                    let open = state.open(false);
                    prop_assert_eq!((open.requests, open.answers), (requests, answers));
                }
                Err(RingError::Indexes { .. }) => prop_assert!(answers + requests > 8),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }

        #[test]
        fn any_words_are_read(words: [u16; 5], event_idx: bool) {
            let (_file, memory) = memory();
            set(&memory, words);
            if let Ok(state) = PLACE.read(&memory) {
                let _ = state.taken(event_idx);
            }
        }
    }
}
