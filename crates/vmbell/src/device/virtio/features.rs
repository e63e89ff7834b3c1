//! Feature bits (virtio 1.3, 6): those that every device offers, and the check of a driver's choice.

use crate::virtqueue::Features;

const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;
const IN_ORDER: u64 = 1 << 35;

/// The offered features: all that [`SplitDevice`](crate::virtqueue::SplitDevice) supports.
pub(super) const OFFERED: u64 = INDIRECT_DESC | EVENT_IDX | VERSION_1 | IN_ORDER;

/// The features of the rings for a driver's choice from those `offered`; `None` if the device cannot accept the choice.
pub(super) const fn accept(chosen: u64, offered: u64) -> Option<Features> {
    if chosen & !offered != 0 || chosen & VERSION_1 == 0 {
        return None;
    }
    Some(Features {
        event_idx: chosen & EVENT_IDX != 0,
        indirect: chosen & INDIRECT_DESC != 0,
        in_order: chosen & IN_ORDER != 0,
    })
}

/// The 32 bits that a selector names; 0 for a selector above 1.
pub(super) const fn half(bits: u64, selector: u32) -> u32 {
    match selector {
        0 => (bits & 0xffff_ffff) as u32,
        1 => (bits >> 32) as u32,
        _ => 0,
    }
}

/// `bits` with one half replaced.
pub(super) const fn with_half(bits: u64, selector: u32, half: u32) -> u64 {
    match selector {
        0 => bits & !0xffff_ffff | half as u64,
        1 => bits & 0xffff_ffff | (half as u64) << 32,
        _ => bits,
    }
}
