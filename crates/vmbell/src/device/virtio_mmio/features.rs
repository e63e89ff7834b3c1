//! Feature bits (virtio 1.3, 6): which this transport offers, and what a driver's choice means.

use crate::virtqueue::Features;

const INDIRECT_DESC: u64 = 1 << 28;
const EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;
const IN_ORDER: u64 = 1 << 35;

/// All that the device side of our split ring can do.
pub(super) const OFFERED: u64 = INDIRECT_DESC | EVENT_IDX | VERSION_1 | IN_ORDER;

/// What the driver's choice means for the rings; none if the device cannot work with it.
pub(super) const fn accept(chosen: u64) -> Option<Features> {
    if chosen & !OFFERED != 0 || chosen & VERSION_1 == 0 {
        return None;
    }
    Some(Features {
        event_idx: chosen & EVENT_IDX != 0,
        indirect: chosen & INDIRECT_DESC != 0,
        in_order: chosen & IN_ORDER != 0,
    })
}

/// The 32 bits that a selector names; there are none beyond the second half.
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
