//! Which of the optional parts of a virtqueue were negotiated (virtio 1.3, 6), and how far a
//! device's initialisation has come (virtio 1.3, 2.1).

/// Feature bits that change what the rings hold. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `VIRTIO_F_EVENT_IDX`: notifications are asked for by position, not switched by a flag.
    pub event_idx: bool,
    /// `VIRTIO_F_INDIRECT_DESC`: a descriptor may name a table of descriptors.
    pub indirect: bool,
    /// `VIRTIO_F_IN_ORDER`: the device uses buffers in the order in which they were made available.
    pub in_order: bool,
}

/// The device status field, a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    /// The device was reset and nobody has found it yet.
    pub const RESET: Self = Self(0);
    /// The guest has noticed the device.
    pub const ACKNOWLEDGE: Self = Self(1);
    /// The guest has a driver for it.
    pub const DRIVER: Self = Self(2);
    /// The driver is ready and the queues are live.
    pub const DRIVER_OK: Self = Self(4);
    /// Features are negotiated.
    pub const FEATURES_OK: Self = Self(8);
    /// The device cannot go on without a reset.
    pub const NEEDS_RESET: Self = Self(64);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
