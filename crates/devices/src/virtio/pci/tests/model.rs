//! The common configuration, compared with a model in which each rule is one line, for any sequence of accesses.

use proptest::prelude::*;

use super::*;
use crate::virtio::ring::OF_RINGS;
use vmbell_virtqueue::{Features, SplitDevice};

/// The state of one queue, in the widths of its fields.
#[derive(Clone, Copy, Debug)]
struct Queue {
    size: u16,
    vector: u16,
    enabled: bool,
    addresses: [u64; 3],
}

impl Queue {
    const RESET: Self = Self {
        size: 256,
        vector: 0xffff,
        enabled: false,
        addresses: [0; 3],
    };
}

/// The state of the device.
#[derive(Clone, Debug)]
struct Model {
    selects: [u32; 2],
    features: u64,
    config_vector: u16,
    status: u8,
    needs_reset: bool,
    queue: u16,
    queues: [Queue; QUEUES as usize],
}

impl Model {
    const RESET: Self = Self {
        selects: [0; 2],
        features: 0,
        config_vector: 0xffff,
        status: 0,
        needs_reset: false,
        queue: 0,
        queues: [Queue::RESET; QUEUES as usize],
    };

    fn selected(&mut self) -> Option<&mut Queue> {
        self.queues.get_mut(usize::from(self.queue))
    }

    fn write(&mut self, memory: &GuestMemoryMmap, at: u64, len: usize, value: u64) {
        let (word, dword) = ((value & 0xffff) as u16, (value & 0xffff_ffff) as u32);
        let vector = if word <= QUEUES { word } else { 0xffff };
        let accepted = self.status & 8 != 0;
        match (at, len) {
            (0, 4) => self.selects[0] = dword,
            (8, 4) => self.selects[1] = dword,
            (12, 4) if !accepted && self.selects[1] < 2 => {
                let shift = 32 * self.selects[1];
                let kept = self.features & !(0xffff_ffff << shift);
                self.features = kept | u64::from(dword) << shift;
            }
            (16, 2) => self.config_vector = vector,
            (20, 1) => self.write_status((value & 0xff) as u8),
            (22, 2) => self.queue = word,
            (26, 2) => {
                if let Some(queue) = self.selected() {
                    queue.vector = vector;
                }
            }
            (28, 2) if word == 1 && accepted && self.status & 4 == 0 => self.enable(memory),
            _ => {
                if let Some(queue) = self.selected().filter(|queue| !queue.enabled) {
                    queue.write(at, len, value);
                }
            }
        }
    }

    fn write_status(&mut self, value: u8) {
        if value == 0 {
            *self = Self::RESET;
            return;
        }
        let mut value = value & !64;
        if self.status & !value != 0 {
            self.needs_reset = true;
            return;
        }
        let sound = self.features & !OF_RINGS == 0 && self.features >> 32 & 1 != 0;
        if self.status & 8 == 0 && !sound {
            value &= !8;
        }
        if value & 4 != 0 && value & 8 == 0 {
            value &= !4;
            self.needs_reset = true;
        }
        self.status = value;
    }

    /// The transport does not check whether a ring is sound.
    fn enable(&mut self, memory: &GuestMemoryMmap) {
        let features = Features::from_bits(self.features);
        let Some(queue) = self.selected() else { return };
        let [descriptors, avail, used] = queue.addresses;
        let layout = SplitLayout {
            size: queue.size,
            descriptors,
            avail,
            used,
        };
        let sound = queue.size <= 256 && SplitDevice::new(&memory, &layout, features).is_ok();
        queue.enabled |= sound;
    }

    fn read(&mut self, at: u64, len: usize) -> u64 {
        let half = |bits: u64, select: u32| match select {
            0 | 1 => bits >> (32 * select) & 0xffff_ffff,
            _ => 0,
        };
        let reset = if self.needs_reset && self.status != 0 {
            64
        } else {
            0
        };
        match (at, len) {
            (0, 4) => self.selects[0].into(),
            (4, 4) => half(OF_RINGS, self.selects[0]),
            (8, 4) => self.selects[1].into(),
            (12, 4) => half(self.features, self.selects[1]),
            (16, 2) => self.config_vector.into(),
            (18, 2) => QUEUES.into(),
            (20, 1) => (self.status | reset).into(),
            (22, 2) => self.queue.into(),
            (26, 2) => self.selected().map_or(0xffff, |queue| queue.vector).into(),
            (30, 2) if self.queue < QUEUES => self.queue.into(),
            _ => self.selected().map_or(0, |queue| queue.read(at, len)),
        }
    }
}

impl Queue {
    fn write(&mut self, at: u64, len: usize, value: u64) {
        let place = usize::try_from(at.wrapping_sub(32) / 8).unwrap();
        match (at, len) {
            (24, 2) => self.size = (value & 0xffff) as u16,
            (32 | 40 | 48, 8) => self.addresses[place] = value,
            (32 | 40 | 48, 4) => {
                self.addresses[place] &= !0xffff_ffff;
                self.addresses[place] |= value & 0xffff_ffff;
            }
            (36 | 44 | 52, 4) => {
                self.addresses[place] &= 0xffff_ffff;
                self.addresses[place] |= value << 32;
            }
            _ => {}
        }
    }

    fn read(&self, at: u64, len: usize) -> u64 {
        let place = usize::try_from(at.wrapping_sub(32) / 8).unwrap();
        match (at, len) {
            (24, 2) => self.size.into(),
            (28, 2) => self.enabled.into(),
            (32 | 40 | 48, 8) => self.addresses[place],
            (32 | 40 | 48, 4) => self.addresses[place] & 0xffff_ffff,
            (36 | 44 | 52, 4) => self.addresses[place] >> 32,
            _ => 0,
        }
    }
}

/// Offset, width and value of a write: mostly writes that make progress, sometimes any.
fn access() -> impl Strategy<Value = (u64, usize, u64)> {
    let fields = prop::sample::select(vec![
        (0, 4),
        (8, 4),
        (12, 4),
        (16, 2),
        (22, 2),
        (24, 2),
        (26, 2),
        (28, 2),
        (32, 4),
        (36, 4),
        (40, 8),
        (48, 8),
    ]);
    let values = prop::sample::select(vec![0, 1, 2, 3, 8, 0x1000, 0x2000, 0xfff0, 0x8000, 0xffff]);
    let statuses = prop::sample::select(vec![0, 1, 3, 11, 11, 15, 15, 4, 0x80, 0xff]);
    let widths = prop::sample::select(vec![1, 2, 3, 4, 8]);
    prop_oneof![
        6 => (fields, values).prop_map(|((at, len), value)| (at, len, value)),
        3 => statuses.prop_map(|value| (STATUS, 1, value)),
        1 => Just((12, 4, 1)),
        1 => (0..64_u64, widths, any::<u64>()),
    ]
}

proptest! {
    #[test]
    fn the_fields_are_those_of_the_model_after_any_accesses(
        accesses in prop::collection::vec(access(), 1..60),
    ) {
        let mut pc = Pc::plain();
        let mut model = Model::RESET;
        for (at, len, value) in accesses {
            pc.set(at, len, value);
            let memory = pc.memory.clone();
            model.write(&memory, at, len, value);
            for (at, len) in (0..64).flat_map(|at| [1, 2, 3, 4, 8].map(|len| (at, len))) {
                prop_assert_eq!(pc.get(at, len), model.read(at, len), "{:#x} {}", at, len);
            }
        }
        prop_assert_eq!(pc.errors(), 0);
    }
}
