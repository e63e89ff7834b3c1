//! The fuzzer's bytes as decisions, and memory to which both sides write.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_virtqueue::{Buffer, Features, PackedLayout, SplitLayout};

pub const TABLES: u64 = 0x4000;
const MEMORY: usize = 0x8000;

pub type Memory = Arc<GuestMemoryMmap>;

pub fn memory() -> Memory {
    let range = [(GuestAddress(0), MEMORY)];
    Arc::new(GuestMemoryMmap::from_ranges(&range).expect("memory"))
}

pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn more(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub fn long(&mut self) -> u64 {
        (0..8).fold(0, |value, _| value << 8 | u64::from(self.byte()))
    }

    pub fn features(&mut self) -> Features {
        let bits = self.byte();
        let features = Features::default().with_event_idx(bits & 1 != 0);
        features
            .with_indirect(bits & 2 != 0)
            .with_in_order(bits & 4 != 0)
    }

    pub fn buffers(&mut self) -> Vec<Buffer> {
        let count = self.byte() % 5;
        (0..count)
            .map(|_| Buffer::new(u64::from(self.word()), u32::from(self.byte())))
            .collect()
    }

    /// Writes as the other side does: one to eight bytes, mostly into the rings.
    pub fn scribble(&mut self, memory: &Memory, end: u64) {
        let at = u64::from(self.word());
        let at = match self.byte() % 4 {
            0 => TABLES + at % 0x400,
            _ => at % end,
        };
        let address = GuestAddress(at & !7);
        let mut bytes = [0; 8];
        memory.read_slice(&mut bytes, address).expect("inside");
        let first = (at & 7) as usize;
        for byte in &mut bytes[first..] {
            *byte = self.byte();
            if !self.more() || self.0[0] & 1 == 0 {
                break;
            }
        }
        memory.write_slice(&bytes, address).expect("inside");
    }
}

pub fn split_layout(choice: u8) -> SplitLayout {
    SplitLayout::contiguous(0, 1 << (choice % 4))
}

pub fn packed_layout(choice: u8) -> PackedLayout {
    PackedLayout::contiguous(0, 1 + u16::from(choice % 9))
}
