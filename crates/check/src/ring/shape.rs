//! The shape of a virtqueue: its kind and size, and where its parts are.

use crate::error::Error;

/// The layout of a virtqueue (virtio 1.3, 2.7 and 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `VIRTIO_F_RING_PACKED` is not negotiated.
    Split,
    /// `VIRTIO_F_RING_PACKED` is negotiated.
    Packed,
}

/// What a scenario needs to know about a virtqueue.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Split or packed.
    pub format: Format,
    /// The number of descriptors.
    pub size: u16,
    /// Whether `VIRTIO_F_EVENT_IDX` is negotiated.
    pub event_idx: bool,
    /// Whether `VIRTIO_F_IN_ORDER` is negotiated.
    pub in_order: bool,
    /// The index at which a split ring begins; an index near 65,535 makes it wrap. Only the reference sides, and queues
    /// whose state can be set, support an index other than 0.
    pub start: u16,
}

impl Shape {
    /// A split ring that begins at 0.
    pub fn split(size: u16, event_idx: bool) -> Shape {
        Shape {
            format: Format::Split,
            size,
            event_idx,
            in_order: false,
            start: 0,
        }
    }

    /// A packed ring.
    pub fn packed(size: u16, event_idx: bool) -> Shape {
        Shape {
            format: Format::Packed,
            size,
            event_idx,
            in_order: false,
            start: 0,
        }
    }

    /// Returns this shape with `VIRTIO_F_IN_ORDER`.
    #[must_use]
    pub fn in_order(mut self) -> Shape {
        self.in_order = true;
        self
    }

    /// Returns this shape, beginning at another index.
    #[must_use]
    pub fn starting_at(mut self, start: u16) -> Shape {
        self.start = start;
        self
    }

    /// Where the descriptors, the driver's area and the device's area are, if they follow one another from byte 0 on.
    pub fn contiguous(self) -> [usize; 3] {
        let [(_, descriptors), (_, driver), _] = self.parts();
        [0, descriptors, (descriptors + driver).next_multiple_of(4)]
    }

    /// The parts of the ring and their lengths in bytes (virtio 1.3, 2.7 and 2.8.10).
    fn parts(self) -> [(&'static str, usize); 3] {
        let size = usize::from(self.size);
        match self.format {
            Format::Split => [
                ("descriptor table", 16 * size),
                ("available ring", 6 + 2 * size),
                ("used ring", 6 + 8 * size),
            ],
            Format::Packed => [
                ("descriptor ring", 16 * size),
                ("driver event", 4),
                ("device event", 4),
            ],
        }
    }

    /// Returns the offsets of a ring whose parts are at these places, if they fit into a memory of `memory` bytes.
    pub(super) fn place(self, places: [usize; 3], memory: usize) -> Result<[u16; 3], Error> {
        let size = self.size;
        let is_allowed = match self.format {
            Format::Split => size.is_power_of_two(),
            Format::Packed => (1..=1 << 15).contains(&size),
        };
        if !is_allowed {
            return Err(Error::RingSize { size });
        }
        for (at, (part, len)) in places.into_iter().zip(self.parts()) {
            let end = at + len;
            if end > memory {
                return Err(Error::RingOutside {
                    part,
                    size,
                    end,
                    memory,
                });
            }
        }
        // No memory has more bytes than 16 bits can count.
        Ok(places.map(|at| u16::try_from(at).unwrap_or(u16::MAX)))
    }
}
