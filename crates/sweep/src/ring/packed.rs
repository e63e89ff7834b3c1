//! The packed virtqueue (virtio 1.2, 2.8).
//!
//! Its only index is in each descriptor's flags, so the reader starts where the driver takes the next answer. The
//! device writes an answer to one descriptor and skips the others of the request: only a reader that knows the length
//! of a request can tell skipped descriptors from new requests, so all requests must have the same length.

use super::{MAX_SIZE, OpenRing, RingError};
use crate::memory::GuestMemory;

const DESCRIPTOR: u64 = 16;
const FLAGS: u64 = 14;
const AVAILABLE: u16 = 1 << 7;
const USED: u16 = 1 << 15;

/// Where a packed virtqueue is, and where its driver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedPlace {
    /// The number of descriptors.
    pub size: u16,
    /// The number of descriptors of each request.
    pub chain: u16,
    /// The guest-physical address of the descriptors.
    pub descriptors: u64,
    /// The guest-physical address of the driver's position in two bytes: where it takes the next answer, with its wrap
    /// counter in bit 15.
    pub seen: u64,
}

impl PackedPlace {
    /// Reads what is open.
    pub fn open(&self, memory: &GuestMemory) -> Result<OpenRing, RingError> {
        let Self { size, chain, .. } = *self;
        let wrong = RingError::Size { size, chain };
        if size == 0 || size > MAX_SIZE || chain == 0 || chain > size {
            return Err(wrong);
        }
        let seen = memory.read_u16(self.seen)?;
        let (mut place, mut wrap) = (seen & !(1 << 15), seen >> 15 != 0);
        if place >= size {
            return Err(wrong);
        }
        let mut open = OpenRing::default();
        for _ in 0..size / chain {
            let offset = DESCRIPTOR * u64::from(place) + FLAGS;
            let address = self.descriptors.saturating_add(offset);
            let flags = memory.read_u16(address)?;
            match [AVAILABLE, USED].map(|bit| (flags & bit != 0) == wrap) {
                [true, true] => open.answers += 1,
                [true, false] => open.requests += 1,
                // The driver has not written it in this lap.
                [false, _] => break,
            }
            place += chain;
            if place >= size {
                place -= size;
                wrap = !wrap;
            }
        }
        Ok(open)
    }
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
            let place = PackedPlace { size, chain, descriptors: 0x100, seen: 0x800 };
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
                let open = model.place.open(&model.memory).unwrap();
                let expected = OpenRing { requests, answers: model.answers, suppressed: false };
                prop_assert_eq!(open, expected);
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
            if let Ok(open) = (PackedPlace { size, chain, descriptors, seen: 0 }).open(&memory) {
                prop_assert!(u32::from(open.requests) + u32::from(open.answers) <= u32::from(size));
            }
        }
    }
}
