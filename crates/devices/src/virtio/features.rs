//! Feature bits (virtio 1.3, 6): those of the rings, and the check of a driver's choice.

use vmbell_virtqueue::Features;

pub(super) const INDIRECT_DESC: u64 = 1 << 28;
pub(super) const EVENT_IDX: u64 = 1 << 29;
pub(super) const VERSION_1: u64 = Features::VERSION_1;
pub(super) const RING_PACKED: u64 = 1 << 34;
pub(super) const IN_ORDER: u64 = 1 << 35;
pub(super) const NOTIFICATION_DATA: u64 = 1 << 38;

/// What the rings of [`virtqueue`](vmbell_virtqueue) support, but for the packed format.
pub(super) const OF_RINGS: u64 = INDIRECT_DESC | EVENT_IDX | VERSION_1 | IN_ORDER;

/// Whether a device that offers some features can accept the driver's choice.
pub(super) const fn accepts(chosen: u64, offered: u64) -> bool {
    chosen & !offered == 0 && chosen & VERSION_1 != 0
}

/// The accepted features that change the contents of the rings.
pub(super) const fn of_ring(accepted: u64) -> Features {
    Features::from_bits(accepted)
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
