//! The state of a device side: what is saved, and which values a queue accepts.

use super::{RestoreError, RingKind, SLOT, Target, at_most, undefined};
use crate::descriptor::Head;
use crate::error::QueueError;
use crate::features::Features;

/// The state of a device side between two calls. [`RingKind`] defines its indices.
///
/// Whether the device has enabled notifications, and its event index, are in the ring's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct DeviceState {
    /// The version of this form: [`STATE_VERSION`](crate::STATE_VERSION).
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::known_version"))]
    pub version: u16,
    /// The format of the ring.
    pub ring: RingKind,
    /// The size of the queue in descriptors.
    pub size: u16,
    /// The negotiated features.
    pub features: Features,
    /// The index of the next chain to take.
    pub next_avail: u16,
    /// The index of the next used element or descriptor to write. At most `size` chains, or their slots, are between
    /// the two indices: those that were taken and not given back.
    pub next_used: u16,
    /// The driver's available index as last loaded, on a split ring; 0 on a packed ring.
    pub avail_seen: u16,
    /// How many used buffers (split) or used slots (packed) the driver got since the last check of whether it wants a
    /// notification; 65,536 also means any larger number.
    pub unsignalled: u32,
    /// The chains that the caller holds.
    pub heads: Vec<HeadState>,
    /// The error that broke the queue, if it is broken.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::required"))]
    pub broken: Option<QueueError>,
}

/// A chain that the device has taken and not given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct HeadState {
    /// The first descriptor (split) or the buffer id (packed), below the size of the queue. If a driver makes the same
    /// one available twice, there are two such chains.
    pub id: u16,
    /// How many ring slots the chain fills: 1 on a split ring.
    pub slots: u16,
    /// The available index (split) or the first slot (packed) at which the chain was taken.
    pub sequence: u16,
    /// How many bytes the device may write.
    pub writable: u32,
}

impl DeviceState {
    /// Puts back the chain that was taken last, which has this head and is not among the saved ones: the device takes it
    /// again.
    pub fn put_back(&mut self, head: &Head) {
        self.next_avail = match self.ring {
            RingKind::Split => head.sequence,
            RingKind::Packed => {
                // The chain began before the ring's end if its first slot is not before the next one.
                let wrapped = head.sequence >= self.next_avail & SLOT;
                let wrap = self.next_avail & !SLOT ^ if wrapped { !SLOT } else { 0 };
                head.sequence | wrap
            }
        };
    }

    fn target(&self) -> Target {
        Target {
            ring: self.ring,
            size: self.size,
            features: self.features,
        }
    }

    /// Checks whether this state fits a queue; returns how many chains (split) or slots (packed) were taken and not
    /// given back.
    pub(crate) fn check(&self, target: Target) -> Result<u16, RestoreError> {
        target.check(self.version, self.target())?;
        let size = self.size;
        at_most("unsignalled", self.unsignalled, super::MANY)?;
        let distance = |field, to| self.ring.distance(field, self.next_used, to, size);
        let taken = distance("next_avail", self.next_avail)?;
        match self.ring {
            // The device cannot have taken a chain that it has not seen. A broken queue ignores what it has seen.
            RingKind::Split => {
                let seen = distance("avail_seen", self.avail_seen)?;
                at_most("next_avail", taken, seen)?;
                if self.broken.is_some() {
                    at_most("avail_seen", seen, taken)?;
                }
            }
            RingKind::Packed => at_most("avail_seen", self.avail_seen, 0_u16)?,
        }
        // Checked first, so that no work is done if there are more chains than the queue holds.
        at_most("number of heads", self.heads.len() as u64, taken)?;
        let mut slots = 0;
        for head in &self.heads {
            self.check_head(head)?;
            slots += u32::from(head.slots);
        }
        at_most("slots of the heads", slots, taken)?;
        if self.features.in_order {
            self.check_order(taken)?;
        }
        Ok(taken)
    }

    fn check_head(&self, head: &HeadState) -> Result<(), RestoreError> {
        let last = self.size - 1;
        at_most("id of a head", head.id, last)?;
        let most = match self.ring {
            RingKind::Split => 1,
            RingKind::Packed => {
                at_most("sequence of a head", head.sequence, last)?;
                self.size
            }
        };
        at_most("slots of a head", head.slots, most)?;
        if head.slots == 0 {
            return Err(undefined("slots of a head", head.slots));
        }
        Ok(())
    }

    /// Checks that no two chains of an in-order queue have the same position among the `taken` ones.
    fn check_order(&self, taken: u16) -> Result<(), RestoreError> {
        let offset = |head: &HeadState| match self.ring {
            RingKind::Split => head.sequence.wrapping_sub(self.next_used),
            RingKind::Packed => {
                let first = self.next_used & SLOT;
                let lap = if head.sequence < first { self.size } else { 0 };
                head.sequence + lap - first
            }
        };
        let mut heads: Vec<(u16, &HeadState)> = self.heads.iter().map(|h| (offset(h), h)).collect();
        heads.sort_unstable_by_key(|(offset, _)| *offset);
        let mut end = 0;
        for (offset, head) in heads {
            let id = head.id;
            let next = u32::from(offset) + u32::from(head.slots);
            if u32::from(offset) < end || next > u32::from(taken) {
                return Err(RestoreError::OutOfOrder { id });
            }
            end = next;
        }
        Ok(())
    }
}

impl From<&Head> for HeadState {
    fn from(head: &Head) -> Self {
        Self {
            id: head.id,
            slots: head.slots,
            sequence: head.sequence,
            writable: head.writable,
        }
    }
}

impl HeadState {
    /// Restores the chain. The caller has checked the state.
    pub(crate) fn head(&self) -> Head {
        Head {
            id: self.id,
            slots: self.slots,
            sequence: self.sequence,
            writable: self.writable,
        }
    }
}
