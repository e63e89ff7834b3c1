//! The packed virtqueue (virtio 1.2, 2.8).
//!
//! Its only index is in each descriptor's flags, so the reader starts where the driver takes the next answer. The
//! device writes an answer to one descriptor and skips the others of the request: only a reader that knows the length
//! of a request can tell skipped descriptors from new requests, so all requests must have the same length.

use serde::{Deserialize, Serialize};

use super::error::{MAX_SIZE, RingError};
use super::open::OpenRing;
use crate::memory::GuestMemory;

const DESCRIPTOR: u64 = 16;
const FLAGS: u64 = 14;
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// The wrap counter in a position.
const WRAP: u16 = 1 << 15;
/// The flags of an event suppression structure: no notification, or one at a position (virtio 1.2, 2.8.10).
const DISABLE: u16 = 1;
const AT_POSITION: u16 = 2;

/// Where a packed virtqueue is, and where its driver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedPlace {
    /// The number of descriptors.
    pub size: u16,
    /// The number of descriptors of each request.
    pub chain: u16,
    /// The guest-physical address of the descriptors.
    pub descriptors: u64,
    /// The guest-physical address of the driver's event suppression structure.
    pub driver: u64,
    /// The guest-physical address of the device's event suppression structure.
    pub device: u64,
    /// The guest-physical address of the driver's position in two bytes: where it takes the next answer, with its wrap
    /// counter in bit 15.
    pub seen: u64,
}

/// A packed virtqueue, read once. Positions have the wrap counter in bit 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedState {
    /// The number of descriptors.
    pub size: u16,
    /// The number of descriptors of each request.
    pub chain: u16,
    /// Where the driver takes the next answer.
    pub seen: u16,
    /// The number of answers that the driver has not taken.
    pub answers: u16,
    /// The number of requests that have no answer.
    pub requests: u16,
    /// The request at which the device wants a notification, if its flags say so.
    pub device_event: u16,
    /// The device's flags.
    pub device_flags: u16,
    /// The answer at which the driver wants an interrupt, if its flags say so.
    pub driver_event: u16,
}

impl PackedPlace {
    /// Reads the ring.
    pub fn read(&self, memory: &GuestMemory) -> Result<PackedState, RingError> {
        let Self { size, chain, .. } = *self;
        let wrong = RingError::Size { size, chain };
        if size == 0 || size > MAX_SIZE || chain == 0 || chain > size {
            return Err(wrong);
        }
        let seen = memory.read_u16(self.seen)?;
        if seen & !WRAP >= size {
            return Err(wrong);
        }
        let mut state = PackedState {
            size,
            chain,
            seen,
            answers: 0,
            requests: 0,
            device_event: memory.read_u16(self.device)?,
            device_flags: memory.read_u16(self.device_flags())?,
            driver_event: memory.read_u16(self.driver)?,
        };
        let mut position = seen;
        for _ in 0..size / chain {
            let flags = memory.read_u16(self.flags(position))?;
            match [AVAILABLE, USED].map(|bit| (flags & bit != 0) == (position & WRAP != 0)) {
                [true, true] => state.answers += 1,
                [true, false] => state.requests += 1,
                // The driver has not written it in this lap.
                [false, _] => break,
            }
            position = state.step(position);
        }
        Ok(state)
    }

    /// The number of descriptors from one position to another one, which is less than two laps further.
    pub(super) fn distance(&self, from: u16, to: u16) -> u16 {
        distance(self.size, from, to)
    }

    /// The address of a descriptor's flags.
    pub fn flags(&self, position: u16) -> u64 {
        let offset = DESCRIPTOR * u64::from(position & !WRAP) + FLAGS;
        self.descriptors.saturating_add(offset)
    }

    /// The address of the flags of the device's event suppression structure.
    pub fn device_flags(&self) -> u64 {
        self.device.saturating_add(2)
    }
}

impl PackedState {
    /// What is open. The driver notifies the device of its next request only if the device's event structure asks for it.
    pub fn open(&self) -> OpenRing {
        let wants_next = match self.device_flags {
            DISABLE => false,
            AT_POSITION => distance(self.size, self.available(), self.device_event) < self.chain,
            _ => true,
        };
        OpenRing {
            requests: self.requests,
            answers: self.answers,
            suppressed: self.requests == 0 && !wants_next,
        }
    }

    /// Whether the device has taken an open request, by its event position.
    pub fn taken(&self) -> Option<bool> {
        let taken = distance(self.size, self.used(), self.device_event) / self.chain;
        let is_known = self.device_flags == AT_POSITION && self.requests != 0;
        (is_known && taken <= self.requests).then_some(taken != 0)
    }

    /// The driver's position, the device's, where the driver takes the next answer, and both event positions.
    pub fn words(&self) -> [u16; 5] {
        [
            self.available(),
            self.used(),
            self.seen,
            self.device_event,
            self.driver_event,
        ]
    }

    fn available(&self) -> u16 {
        (0..self.requests).fold(self.used(), |position, _| self.step(position))
    }

    fn used(&self) -> u16 {
        (0..self.answers).fold(self.seen, |position, _| self.step(position))
    }

    /// The position before a request.
    pub(crate) fn back(&self, position: u16) -> u16 {
        let laps = 2 * u32::from(self.size).max(1);
        let place = u32::from(distance(self.size, WRAP, position));
        let at = (place + laps - u32::from(self.chain)) % laps;
        match u16::try_from(at).unwrap_or(0) {
            at if at >= self.size => at - self.size,
            at => at | WRAP,
        }
    }

    /// The position after a request.
    fn step(&self, position: u16) -> u16 {
        match (position & !WRAP) + self.chain {
            at if at >= self.size => (at - self.size) | (position & WRAP ^ WRAP),
            at => at | position & WRAP,
        }
    }
}

/// The number of descriptors from one position to another one, which is less than two laps further.
fn distance(size: u16, from: u16, to: u16) -> u16 {
    let place = |position: u16| {
        let lap = if position & WRAP == 0 { size } else { 0 };
        u32::from(position & !WRAP) + u32::from(lap)
    };
    let all = 2 * u32::from(size).max(1);
    let distance = (place(to) % all + all - place(from) % all) % all;
    u16::try_from(distance).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use tempfile::NamedTempFile;

    use super::*;

    /// A driver and a device, each with its own position and wrap counter.
    struct Model {
        memory: GuestMemory,
        place: PackedPlace,
        driver: (u16, bool),
        device: (u16, bool),
        seen: (u16, bool),
        requests: VecDeque<()>,
        answers: u16,
    }

    fn step((at, wrap): (u16, bool), by: u16, size: u16) -> (u16, bool) {
        match at + by >= size {
            true => (at + by - size, !wrap),
            false => (at + by, wrap),
        }
    }

    impl Model {
        fn flags(&self, at: u16, flags: u16) {
            let address = self.place.descriptors + 16 * u64::from(at) + 14;
            self.memory.write_u16(address, flags).unwrap();
        }

        fn add(&mut self) {
            let PackedPlace { size, chain, .. } = self.place;
            let outstanding = self.requests.len() + usize::from(self.answers);
            if (outstanding + 1) * usize::from(chain) > usize::from(size) {
                return;
            }
            for _ in 0..chain {
                let (at, wrap) = self.driver;
                self.flags(at, if wrap { AVAILABLE } else { USED });
                self.driver = step(self.driver, 1, size);
            }
            self.requests.push_back(());
        }

        fn answer(&mut self) {
            if self.requests.pop_front().is_some() {
                let (at, wrap) = self.device;
                self.flags(at, if wrap { AVAILABLE | USED } else { 0 });
                self.device = step(self.device, self.place.chain, self.place.size);
                self.answers += 1;
            }
        }

        fn take(&mut self) {
            if self.answers != 0 {
                self.seen = step(self.seen, self.place.chain, self.place.size);
                self.answers -= 1;
                let (at, wrap) = self.seen;
                let word = at | u16::from(wrap) << 15;
                self.memory.write_u16(self.place.seen, word).unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn open_work_is_that_of_a_model(
            size in 1..20_u16, chain in 1..4_u16, steps in prop::collection::vec(0..3_u8, 0..120)
        ) {
            prop_assume!(chain <= size);
            let file = NamedTempFile::new().unwrap();
            file.as_file().set_len(4096).unwrap();
            let memory = GuestMemory::of_file(file.path(), 4096).unwrap();
            let place = PackedPlace { size, chain, descriptors: 0x100, driver: 0x810, device: 0x820, seen: 0x800 };
            memory.write_u16(place.seen, 1 << 15).unwrap();
            let start = (0, true);
            let mut model = Model {
                memory, place, driver: start, device: start, seen: start,
                requests: VecDeque::new(), answers: 0,
            };
            for step in steps {
                match step {
                    0 => model.add(),
                    1 => model.answer(),
                    _ => model.take(),
                }
                let requests = u16::try_from(model.requests.len()).unwrap();
                // The device wants a notification at its own position, which is that of its next answer.
                let position = |(at, wrap): (u16, bool)| at | u16::from(wrap) << 15;
                model.memory.write_u16(place.device, position(model.device)).unwrap();
                model.memory.write_u16(place.device_flags(), 2).unwrap();
                let state = model.place.read(&model.memory).unwrap();
                let expected = OpenRing { requests, answers: model.answers, suppressed: false };
                prop_assert_eq!(state.open(), expected);
                prop_assert_eq!(state.taken(), (requests != 0).then_some(false));
                let [available, used, ..] = state.words();
                prop_assert_eq!([available, used], [position(model.driver), position(model.device)]);
                model.memory.write_u16(place.device_flags(), 1).unwrap();
                let open = model.place.read(&model.memory).unwrap().open();
                prop_assert_eq!(open.suppressed, requests == 0);
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u16>(), 64), size: u16, chain: u16, descriptors in 0..4096_u64) {
            let file = NamedTempFile::new().unwrap();
            file.as_file().set_len(4096).unwrap();
            let memory = GuestMemory::of_file(file.path(), 4096).unwrap();
            for (place, word) in (0..).step_by(2).zip(bytes) {
                memory.write_u16(place, word).unwrap();
            }
            let place = PackedPlace { size, chain, descriptors, driver: 0, device: 8, seen: 0 };
            if let Ok(state) = place.read(&memory) {
                let (open, _) = (state.open(), state.taken());
                prop_assert!(u32::from(open.requests) + u32::from(open.answers) <= u32::from(size));
            }
        }
    }
}
