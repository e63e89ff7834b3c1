//! The buffers of a reference driver: which ids are free, which are in flight, and the rest of a batch.

use std::collections::VecDeque;

use super::Shape;
use crate::shared::claim;

pub(super) struct Buffers {
    in_order: bool,
    free: VecDeque<u16>,
    /// Oldest first.
    in_flight: VecDeque<u16>,
    /// The last buffer of a batch, if the driver has taken only a part of it (virtio 1.3, 2.7.9 and 2.8.9).
    batch: Option<u32>,
}

impl Buffers {
    pub(super) fn new(shape: Shape) -> Buffers {
        Buffers {
            in_order: shape.in_order,
            free: (0..shape.size).collect(),
            in_flight: VecDeque::new(),
            batch: None,
        }
    }

    /// A free id for a new buffer: on an in-order ring the next id in turn, otherwise the id that came back last.
    pub(super) fn send(&mut self) -> Option<u16> {
        let id = self.free.pop_front()?;
        self.in_flight.push_back(id);
        Some(id)
    }

    /// How many used buffers the driver waits for, if it wants to be interrupted late.
    pub(super) fn three_quarters(&self) -> u16 {
        u16::try_from(self.in_flight.len() * 3 / 4).unwrap_or(u16::MAX)
    }

    /// Whether the driver has taken only some buffers of a batch. The ring does not show the remaining ones.
    pub(super) fn in_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Takes one used buffer back; false if none is used. `look` returns the id that the device has written next: the
    /// id of the buffer, or on an in-order ring the id of the last buffer of a batch.
    pub(super) fn take(&mut self, look: impl FnOnce() -> Option<u32>) -> bool {
        let Some(named) = self.batch.take().or_else(look) else {
            return false;
        };
        let place = self.in_flight.iter().position(|&id| u32::from(id) == named);
        claim(place.is_some(), || {
            format!("the device returns buffer {named}, which is not in flight")
        });
        let place = if self.in_order { 0 } else { place.unwrap_or(0) };
        let Some(id) = self.in_flight.remove(place) else {
            return false;
        };
        if self.in_order {
            self.batch = (u32::from(id) != named).then_some(named);
            self.free.push_back(id);
        } else {
            self.free.push_front(id);
        }
        true
    }
}
