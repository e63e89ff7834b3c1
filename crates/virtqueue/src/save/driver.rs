//! The state of a driver side: what is saved, and which values a queue accepts.

use super::{MANY, RestoreError, RingKind, Target, at_most, same, undefined};
use crate::error::QueueError;
use crate::features::Features;
use crate::poll;

/// The state of a driver side between two calls. [`RingKind`] defines its indices.
///
/// Whether the driver has enabled notifications, and its event index, are in the ring's memory. The caller saves the
/// data of the buffers in flight itself, by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct DriverState {
    /// The version of this form: [`STATE_VERSION`](crate::STATE_VERSION).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::known_version"))]
    pub version: u16,
    /// The format of the ring.
    pub ring: RingKind,
    /// The size of the queue in descriptors.
    pub size: u16,
    /// The negotiated features.
    pub features: Features,
    /// The address of the indirect tables and the number of entries of each, if the driver has indirect tables.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::required"))]
    pub tables: Option<(u64, u16)>,
    /// The index of the next buffer to make available.
    pub available: u16,
    /// How many buffers (split) or slots (packed) were made available since the last check of whether the device wants
    /// a notification; 65,536 also means any larger number.
    pub unkicked: u32,
    /// How far the driver has consumed: the position that a [`Token`](crate::Token) made now would have.
    pub position: u64,
    /// The position at the last reset.
    pub base: u64,
    /// Whether opaque values count wraps.
    pub wrap_counter: bool,
    /// The device's used index as last loaded, on a split ring; 0 on a packed ring.
    pub used_seen: u16,
    /// Whether consuming the last used buffer moves the event index.
    pub armed: bool,
    /// For a partly consumed in-order batch: the id of its last buffer and that buffer's length in bytes.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::required"))]
    pub batch: Option<(u16, u32)>,
    /// The buffers in flight; on an in-order queue the oldest is first.
    pub buffers: Vec<BufferState>,
    /// Every entry (descriptor or buffer id) of the queue, once: first the entries of each buffer in flight, in the
    /// buffer's order, and then the free entries, in the order in which they will be taken. A buffer has one entry for
    /// each descriptor on a split ring, and a single entry on a packed ring.
    pub entries: Vec<u16>,
    /// The error that broke the queue, if it is broken.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::required"))]
    pub broken: Option<QueueError>,
}

/// A buffer that the driver has made available and has not got back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct BufferState {
    /// The number by which the device identifies the buffer: its first entry.
    pub id: u16,
    /// How many descriptors of the ring the buffer fills.
    pub slots: u16,
    /// How many bytes the device may write.
    pub writable: u32,
}

impl DriverState {
    fn target(&self) -> Target {
        Target {
            ring: self.ring,
            size: self.size,
            features: self.features,
        }
    }

    /// How many descriptors of the ring are filled by the buffers in flight. The caller has checked the state.
    pub(crate) fn filled(&self) -> u16 {
        self.buffers.iter().map(|buffer| buffer.slots).sum()
    }

    /// Checks whether this state fits a queue with these indirect tables. Returns the number of buffers (split) or
    /// slots (packed) in flight.
    pub(crate) fn check(
        &self,
        target: Target,
        tables: Option<(u64, u16)>,
    ) -> Result<u16, RestoreError> {
        target.check(self.version, self.target())?;
        let (has, had) = (tables.is_some(), self.tables.is_some());
        same("indirect tables", had.into(), has.into())?;
        let (saved, queue) = (self.tables.unwrap_or_default(), tables.unwrap_or_default());
        same("address of the indirect tables", saved.0, queue.0)?;
        same(
            "entries of an indirect table",
            saved.1.into(),
            queue.1.into(),
        )?;
        let filled = self.check_buffers()?;
        self.check_entries()?;
        let in_flight = match self.ring {
            // The checks above limit it to the size of the queue.
            RingKind::Split => u16::try_from(self.buffers.len()).unwrap_or(u16::MAX),
            RingKind::Packed => filled,
        };
        self.check_indices(in_flight)?;
        Ok(in_flight)
    }

    /// Checks that the position cannot overflow while the queue exists: the position is at most half the maximum, and
    /// the restored queue counts up from there.
    pub(crate) fn check_position(&self) -> Result<(), RestoreError> {
        at_most("position", self.position, 1_u64 << 62)
    }

    /// Checks the sizes of the buffers; returns how many descriptors of the ring they fill.
    fn check_buffers(&self) -> Result<u16, RestoreError> {
        at_most("number of buffers", self.buffers.len() as u64, self.size)?;
        let mut filled = 0;
        for buffer in &self.buffers {
            if buffer.slots == 0 {
                return Err(undefined("slots of a buffer", buffer.slots));
            }
            at_most("slots of a buffer", buffer.slots, self.size - filled)?;
            filled += buffer.slots;
        }
        Ok(filled)
    }

    /// Checks that every entry is listed once, and that each buffer has its own entries.
    fn check_entries(&self) -> Result<(), RestoreError> {
        let size = self.size;
        agree("number of entries", self.entries.len() as u64, size)?;
        let mut listed = vec![false; usize::from(size)];
        for &entry in &self.entries {
            at_most("entry", entry, size - 1)?;
            if std::mem::replace(&mut listed[usize::from(entry)], true) {
                return Err(RestoreError::Twice { entry });
            }
        }
        let mut first = 0;
        for buffer in &self.buffers {
            // The index is not past the end: no buffer has more entries than slots, and there are at most `size` slots.
            agree("id of a buffer", buffer.id, self.entries[first])?;
            first += self.ring.entries(buffer.slots);
        }
        if self.features.in_order {
            let next = |entry: u16| if entry + 1 == size { 0 } else { entry + 1 };
            let pairs = self.entries.iter().zip(self.entries.iter().skip(1));
            if let Some((_, &id)) = pairs.into_iter().find(|&(&a, &b)| b != next(a)) {
                return Err(RestoreError::OutOfOrder { id });
            }
        }
        Ok(())
    }

    /// Checks the indices, positions and counts.
    fn check_indices(&self, in_flight: u16) -> Result<(), RestoreError> {
        let (size, ring, base) = (self.size, self.ring, self.base);
        at_most("base", base, self.position)?;
        if base != poll::after_reset(base.wrapping_sub(1)) {
            return Err(undefined("base", base));
        }
        let since = self.position - base;
        let consumed = match ring {
            RingKind::Split => since,
            RingKind::Packed => {
                let slot = self.position & 0xffff;
                at_most("slot of the position", slot, size - 1)?;
                (since >> 16) * u64::from(size) + slot
            }
        };
        let made = consumed + u64::from(in_flight);
        at_most("unkicked", self.unkicked, made.min(u64::from(MANY)))?;
        let index = ring.index(self.position);
        let ahead = ring.distance("available", index, self.available, size)?;
        agree("number of buffers or slots in flight", ahead, in_flight)?;
        at_most("armed", self.armed, self.features.event_idx)?;
        at_most("batch", self.batch.is_some(), self.features.in_order)?;
        if let Some((id, _)) = self.batch
            && !self.buffers.iter().any(|buffer| buffer.id == id)
        {
            return Err(RestoreError::NotInFlight { id });
        }
        match ring {
            // A broken queue ignores what it has seen; buffers that a batch covers are used but not yet consumed.
            RingKind::Split => {
                let seen = ring.distance("used_seen", index, self.used_seen, size)?;
                let most = if self.broken.is_some() { 0 } else { in_flight };
                at_most("used_seen", seen, most)?;
                at_most("batch", self.batch.is_some(), seen)
            }
            RingKind::Packed => at_most("used_seen", self.used_seen, 0_u16),
        }
    }
}

fn agree(
    field: &'static str,
    value: impl Into<u64>,
    expected: impl Into<u64>,
) -> Result<(), RestoreError> {
    let (value, expected) = (value.into(), expected.into());
    if value == expected {
        return Ok(());
    }
    let error = RestoreError::Disagree {
        field,
        value,
        expected,
    };
    Err(error)
}
