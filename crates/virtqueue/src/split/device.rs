//! The device side of a split ring, owned by one thread at a time (virtio 1.3, 2.7).

use super::SplitLayout;
use super::ring::{NO_INTERRUPT, NO_NOTIFY, SplitRing};
use crate::descriptor::{self, Chain, Head, INDIRECT, NEXT, WRITE};
use crate::device::{DeviceControl, DeviceQueue};
use crate::error::{QueueError, SetupError, UsedError};
use crate::features::{Features, need_event};
use crate::indirect::Table;
use crate::memory::RingMemory;
use crate::ring::Ring;
use crate::save::{self, Target};
use crate::save::{DeviceState, HeadState, RestoreError, RingKind, STATE_VERSION};
use crate::sync::{Ordering, fence};

/// The device side of a split ring: takes available chains and gives them back as used.
#[derive(Debug)]
pub struct SplitDevice<M> {
    pub(super) ring: SplitRing<M>,
    features: Features,
    /// Chains taken so far, modulo 2^16.
    next_avail: u16,
    /// The driver's available index as last loaded.
    avail_idx: u16,
    /// Chains given back so far; the low half is the index in the ring.
    next_used: u64,
    /// The value of `next_used` when a notification was last considered.
    signalled: u64,
    broken: Option<QueueError>,
}

impl<M: RingMemory> SplitDevice<M> {
    /// Takes the device side of a ring that a driver has initialized.
    ///
    /// # Errors
    ///
    /// If the size is not allowed, or a part of the ring is misaligned or outside of `memory`.
    pub fn new(memory: &M, layout: &SplitLayout, features: Features) -> Result<Self, SetupError> {
        let ring = SplitRing::resolve(memory, layout)?;
        Ok(Self::over(ring, features))
    }

    /// Takes the device side of a ring whose driver side is in this process.
    pub fn over(ring: SplitRing<M>, features: Features) -> Self {
        Self {
            ring,
            features,
            next_avail: 0,
            avail_idx: 0,
            next_used: 0,
            signalled: 0,
            broken: None,
        }
    }

    /// The error that broke the queue, if it is broken.
    pub fn broken(&self) -> Option<QueueError> {
        self.broken
    }

    fn target(&self) -> Target {
        Target {
            ring: RingKind::Split,
            size: self.ring.size(),
            features: self.features,
        }
    }

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        // Makes `pop` take its slow path, which returns the error.
        self.avail_idx = self.next_avail;
        error
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
    fn used_index(&self) -> u16 {
        self.next_used as u16
    }

    /// Loads the driver's available index; returns whether there is a new chain and the queue is not broken.
    #[inline]
    fn look(&mut self) -> bool {
        // Acquire: the driver wrote the descriptors, and then the entries, before the index.
        let index = self.ring.avail_idx();
        let used = self.used_index();
        // Chains that were taken and not given back count as well: a driver has only `size` descriptors.
        let (ahead, taken) = (index.wrapping_sub(used), self.next_avail.wrapping_sub(used));
        if ahead > self.ring.size() || ahead < taken {
            self.too_far(index);
        }
        if ahead == taken || self.broken.is_some() {
            return false;
        }
        self.avail_idx = index;
        true
    }

    #[cold]
    fn too_far(&mut self, index: u16) {
        if self.broken.is_none() {
            let (used, size) = (self.used_index(), self.ring.size());
            self.fail(QueueError::AvailAhead { index, used, size });
        }
    }

    #[inline]
    fn read_chain(&self, head: u16, chain: &mut Chain) -> Result<(), QueueError> {
        let Some((addr, rest)) = self.ring.descriptor(head) else {
            let (id, size) = (u32::from(head), self.ring.size());
            return Err(QueueError::IdOutOfRange { id, size });
        };
        let flags = descriptor::split::flags(rest);
        if flags & (NEXT | INDIRECT) != 0 {
            return self.walk(head, addr, rest, chain);
        }
        chain.set_single(head, addr, descriptor::len(rest), flags & WRITE != 0)
    }

    /// Writes a used element for the chain that is given back next, without publishing it.
    #[inline]
    fn write_used(&mut self, head: &Head, len: u32, ahead: u16) -> Result<(), UsedError> {
        let place = self.next_used + u64::from(ahead);
        #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
        let next = place as u16;
        head.check(len, self.features.in_order, next)?;
        if next == self.next_avail {
            return Err(UsedError::NotTaken { id: head.id });
        }
        self.ring.set_used(place, u32::from(head.id), len);
        Ok(())
    }

    /// Publishes `count` used elements. Release: a driver that sees the index sees the elements and the contents
    /// of the buffers.
    #[inline]
    fn publish(&mut self, count: u16) {
        self.next_used += u64::from(count);
        self.ring.publish_used(self.used_index());
    }

    /// Adds the buffers of chain `head`; the caller has read its first descriptor (virtio 1.3, 2.7.5).
    ///
    /// Each descriptor is read once. A chain that is longer than the table must have a loop.
    #[inline(never)]
    fn walk(&self, head: u16, addr: u64, rest: u64, chain: &mut Chain) -> Result<(), QueueError> {
        chain.clear();
        let (mut addr, mut rest) = (addr, rest);
        let size = self.ring.size();
        for _ in 0..size {
            let (flags, len) = (descriptor::split::flags(rest), descriptor::len(rest));
            if flags & INDIRECT != 0 {
                if flags & NEXT != 0 || !self.features.indirect {
                    return Err(QueueError::IndirectMisplaced { head });
                }
                return Table::of(self.ring.memory(), head, addr, len)?.push_linked(head, chain);
            }
            chain.push(head, addr, len, flags & WRITE != 0)?;
            if flags & NEXT == 0 {
                return Ok(());
            }
            let next = descriptor::split::next(rest);
            (addr, rest) = self.ring.descriptor(next).ok_or({
                let id = u32::from(next);
                QueueError::IdOutOfRange { id, size }
            })?;
        }
        Err(QueueError::Loop { head })
    }
}

impl<M: RingMemory> DeviceQueue for SplitDevice<M> {
    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError> {
        if self.next_avail == self.avail_idx && !self.look() {
            return self.broken.map_or(Ok(None), Err);
        }
        let sequence = self.next_avail;
        let id = self.ring.avail(sequence.into());
        if let Err(error) = self.read_chain(id, chain) {
            return Err(self.fail(error));
        }
        self.next_avail = sequence.wrapping_add(1);
        Ok(Some(Head {
            id,
            slots: 1,
            sequence,
            writable: chain.writable_len(),
        }))
    }

    #[inline]
    fn next_avail(&self) -> u16 {
        self.next_avail
    }

    #[inline]
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError> {
        self.write_used(&head, len, 0)?;
        self.publish(1);
        Ok(())
    }

    #[inline]
    fn add_used_batch(
        &mut self,
        chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError> {
        let mut count = 0;
        // The position of the current run's element, on an in-order ring, if the run's last chain is full.
        let mut run = None;
        for (head, len) in chains {
            if let Err(error) = self.write_used(&head, len, count) {
                self.publish(count);
                return Err(error);
            }
            if self.features.in_order {
                // A chain that was written in full needs no separate used element if another chain follows.
                let place = run.unwrap_or(self.next_used + u64::from(count));
                self.ring.set_used(place, u32::from(head.id), len);
                run = (len == head.writable).then_some(place);
            }
            count += 1;
        }
        self.publish(count);
        Ok(())
    }

    #[inline]
    fn needs_notification(&mut self) -> bool {
        // Orders the store of the used index before the load of the driver's event suppression.
        fence(Ordering::SeqCst);
        let steps = self.next_used - self.signalled;
        if steps == 0 {
            return false;
        }
        #[expect(clippy::cast_possible_truncation, reason = "the index is the low half")]
        let (new, old) = (self.next_used as u16, self.signalled as u16);
        self.signalled = self.next_used;
        if self.features.event_idx {
            steps > u64::from(u16::MAX) || need_event(self.ring.used_event(), new, old)
        } else {
            self.ring.avail_flags() & NO_INTERRUPT == 0
        }
    }

    fn enable_notification(&mut self) -> bool {
        if self.features.event_idx {
            self.ring.set_avail_event(self.next_avail);
        } else {
            self.ring.set_used_flags(0);
        }
        // Orders the store of the device's event suppression before the load of the available index.
        fence(Ordering::SeqCst);
        self.broken.is_none() && self.ring.avail_idx() != self.next_avail
    }

    fn disable_notification(&mut self) {
        if self.features.event_idx {
            // The event index that is farthest from the indices of the chains in flight, in both directions.
            let far = self.next_avail.wrapping_add(1 << 15);
            self.ring.set_avail_event(far);
        } else {
            self.ring.set_used_flags(NO_NOTIFY);
        }
    }
}

impl<M: RingMemory> DeviceControl for SplitDevice<M> {
    fn save<'h>(
        &self,
        heads: impl IntoIterator<Item = &'h Head>,
    ) -> Result<DeviceState, RestoreError> {
        let target = self.target();
        let state = DeviceState {
            version: STATE_VERSION,
            ring: target.ring,
            size: target.size,
            features: target.features,
            next_avail: self.next_avail,
            next_used: self.used_index(),
            avail_seen: self.avail_idx,
            unsignalled: save::at_most_many(self.next_used - self.signalled),
            heads: heads.into_iter().map(HeadState::from).collect(),
            broken: self.broken,
        };
        state.check(target)?;
        Ok(state)
    }

    fn restore(&mut self, state: &DeviceState) -> Result<Vec<Head>, RestoreError> {
        state.check(self.target())?;
        self.next_avail = state.next_avail;
        self.avail_idx = state.avail_seen;
        // Far enough from zero that `signalled` cannot be negative.
        self.next_used = u64::from(state.next_used) + u64::from(save::MANY);
        self.signalled = self.next_used - u64::from(state.unsignalled);
        self.broken = state.broken;
        Ok(state.heads.iter().map(HeadState::head).collect())
    }
}
