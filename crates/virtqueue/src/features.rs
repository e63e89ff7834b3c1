//! The negotiated features of a virtqueue (virtio 1.3, 6), the rule for event indices, and the device status field
//! (virtio 1.3, 2.1).

/// Feature bits that change the contents of the rings. Defaults to none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Features {
    /// `VIRTIO_F_EVENT_IDX`: each side asks for a notification by event index instead of a flag.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC`: a descriptor may name a table of descriptors.
    pub indirect: bool,
    /// `VIRTIO_F_IN_ORDER`: the device uses buffers in the order in which they were made available.
    pub in_order: bool,
}

impl Features {
    /// The feature bit `VIRTIO_F_VERSION_1`; a device without it is a legacy device. It does not change the rings.
    pub const VERSION_1: u64 = 1 << 32;

    /// Sets whether event indexes were negotiated.
    #[must_use]
    pub const fn with_event_idx(mut self, event_idx: bool) -> Self {
        self.event_idx = event_idx;
        self
    }

    /// Sets whether indirect descriptors were negotiated.
    #[must_use]
    pub const fn with_indirect(mut self, indirect: bool) -> Self {
        self.indirect = indirect;
        self
    }

    /// Sets whether use in order was negotiated.
    #[must_use]
    pub const fn with_in_order(mut self, in_order: bool) -> Self {
        self.in_order = in_order;
        self
    }

    /// Picks the bits that change the contents of the rings from a device's negotiated features (virtio
    /// 1.3, 6).
    pub const fn from_bits(negotiated: u64) -> Self {
        Self {
            indirect: negotiated & 1 << 28 != 0,
            event_idx: negotiated & 1 << 29 != 0,
            in_order: negotiated & 1 << 35 != 0,
        }
    }
}

/// The device status field, a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    /// The device was reset, and the guest has not noticed it yet.
    pub const RESET: Self = Self(0);
    /// The guest has noticed the device.
    pub const ACKNOWLEDGE: Self = Self(1);
    /// The guest has a driver for the device.
    pub const DRIVER: Self = Self(2);
    /// The driver is ready, and the queues may be used.
    pub const DRIVER_OK: Self = Self(4);
    /// Feature negotiation is complete.
    pub const FEATURES_OK: Self = Self(8);
    /// The device cannot continue without a reset.
    pub const NEEDS_RESET: Self = Self(64);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The union of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// With `VIRTIO_F_EVENT_IDX`: whether an index has passed `event`, for which the other side wants a notification; that
/// is, whether entry `event` is one of the entries `old..new` (virtio 1.3, 2.7.10 and 2.8.21).
///
/// `new - old` is at most 65535; if the index may have moved further, a side notifies without calling this.
pub const fn need_event(event: u16, new: u16, old: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
#[path = "need_event_test.rs"]
mod tests;
