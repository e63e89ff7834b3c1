//! The device side of a packed ring, owned by one thread at a time (virtio 1.3, 2.8).

use super::PackedLayout;
use super::ring::{EventSuppression, LAP_FLAGS, PackedRing, Position, look};
use crate::descriptor::{self, Chain, Descriptor, Head, INDIRECT, NEXT, WRITE};
use crate::device::{DeviceControl, DeviceQueue};
use crate::error::{QueueError, SetupError, UsedError};
use crate::features::Features;
use crate::indirect::Table;
use crate::memory::{Cursor, RingMemory};
use crate::ring::Ring;
use crate::save::{self, Target};
use crate::save::{DeviceState, HeadState, RestoreError, RingKind, STATE_VERSION};
use crate::sync::{Ordering, fence};

/// The device side of a packed ring: takes available chains and gives them back as used.
#[derive(Debug)]
pub struct PackedDevice<M> {
    ring: PackedRing<M>,
    features: Features,
    /// The position of the next available chain, at most one lap after `next_used`; blocked if the queue is broken.
    next_avail: Cursor<M>,
    /// The position of the next used descriptor to write.
    next_used: Cursor<M>,
    /// The value of `next_used` when a notification was last considered.
    signalled: Position,
    broken: Option<QueueError>,
}

impl<M: RingMemory> PackedDevice<M> {
    /// Takes the device side of a ring that a driver has initialized.
    ///
    /// # Errors
    ///
    /// If the size is not allowed, or a part of the ring is misaligned or outside of `memory`.
    pub fn new(memory: &M, layout: &PackedLayout, features: Features) -> Result<Self, SetupError> {
        let ring = PackedRing::resolve(memory, layout)?;
        Ok(Self::over(ring, features))
    }

    /// Takes the device side of a ring whose driver side is in this process.
    pub fn over(ring: PackedRing<M>, features: Features) -> Self {
        Self {
            next_avail: ring.available(),
            next_used: ring.used(),
            ring,
            features,
            signalled: Position::START,
            broken: None,
        }
    }

    /// The error that broke the queue, if it is broken.
    pub fn broken(&self) -> Option<QueueError> {
        self.broken
    }

    fn target(&self) -> Target {
        Target {
            ring: RingKind::Packed,
            size: self.ring.size(),
            features: self.features,
        }
    }

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        // Makes `pop` take its slow path, which returns the error.
        self.next_avail.block();
        error
    }

    /// Takes the chain of `slots` slots at the next position. `chain` holds its buffers.
    #[inline(always)]
    fn take(&mut self, id: u16, slots: u16, chain: &Chain) -> Result<Option<Head>, QueueError> {
        let size = self.ring.size();
        if id >= size {
            let id = u32::from(id);
            return Err(self.fail(QueueError::IdOutOfRange { id, size }));
        }
        let (next_avail, next_used) = (
            Position::of(&self.next_avail),
            Position::of(&self.next_used),
        );
        // A driver must not make slots available again while their chains are taken. Once a whole lap is taken, no slot
        // may be made available.
        let ahead = if slots == 1 {
            next_avail.0 >= next_used.0 + LAP
        } else {
            u64::from(slots) + next_avail.since(next_used, size) > u64::from(size)
        };
        if ahead {
            let (index, used) = (next_avail.off_wrap(), next_used.off_wrap());
            return Err(self.fail(QueueError::AvailAhead { index, used, size }));
        }
        self.next_avail.advance(slots);
        Ok(Some(Head {
            id,
            slots,
            sequence: next_avail.slot(),
            writable: chain.writable_len(),
        }))
    }

    /// [`pop`](DeviceQueue::pop) of a chain of several descriptors, or of an indirect one.
    #[inline(never)]
    fn pop_chain(&mut self, first: u64, chain: &mut Chain) -> Result<Option<Head>, QueueError> {
        match self.walk(first, chain) {
            Ok((id, slots)) => self.take(id, slots, chain),
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Follows a chain from its second slot on. Each descriptor is read once; the last one has the buffer id. The limit
    /// is the size of the ring: a longer chain never ends.
    fn walk(&self, first: u64, chain: &mut Chain) -> Result<(u16, u16), QueueError> {
        chain.clear();
        let mut at = Position::of(&self.next_avail);
        let head = at.slot();
        let size = self.ring.size();
        let mut rest = first;
        for slots in 1..=size {
            let (flags, len) = (descriptor::packed::flags(rest), descriptor::len(rest));
            let addr = self.ring.at(at).load_addr();
            if flags & INDIRECT != 0 {
                if flags & NEXT != 0 || slots > 1 || !self.features.indirect {
                    return Err(QueueError::IndirectMisplaced { head });
                }
                Table::of(self.ring.memory(), head, addr, len)?.push_all(head, chain)?;
                return Ok((descriptor::packed::id(rest), slots));
            }
            chain.push(head, addr, len, flags & WRITE != 0)?;
            if flags & NEXT == 0 {
                return Ok((descriptor::packed::id(rest), slots));
            }
            at = at.advance(1, size);
            rest = self.ring.at(at).load_rest(Ordering::Relaxed);
        }
        Err(QueueError::Loop { head })
    }
}

/// The second word of a used descriptor at a position with this mark.
#[inline]
fn used(mark: u64, head: &Head, len: u32) -> u64 {
    let written = if len == 0 { 0 } else { WRITE };
    descriptor::packed::rest(len, head.id, written) | mark
}

/// One lap, as the difference of two positions.
const LAP: u64 = 1 << 16;
/// The bits of the second word that say whether a descriptor is available and is a whole chain by itself.
const SINGLE: u64 = LAP_FLAGS | descriptor::packed::rest(0, 0, NEXT | INDIRECT);

impl<M: RingMemory> DeviceQueue for PackedDevice<M> {
    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError> {
        // Acquire: the driver wrote the rest of the chain before these flags.
        let first = self.next_avail.get();
        let rest = first.load_rest(Ordering::Acquire);
        if rest & SINGLE != self.next_avail.mark() {
            if rest & LAP_FLAGS != self.next_avail.mark() {
                return self.broken.map_or(Ok(None), Err);
            }
            return self.pop_chain(rest, chain);
        }
        let (addr, len) = (first.load_addr(), descriptor::len(rest));
        let head = Position::of(&self.next_avail).slot();
        let writable = descriptor::packed::flags(rest) & WRITE != 0;
        if let Err(error) = chain.set_single(head, addr, len, writable) {
            return Err(self.fail(error));
        }
        self.take(descriptor::packed::id(rest), 1, chain)
    }

    #[inline]
    fn next_avail(&self) -> u16 {
        Position::of(&self.next_avail).off_wrap()
    }

    #[inline]
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError> {
        let at = Position::of(&self.next_used);
        head.check(len, self.features.in_order, at.slot())?;
        let (word, limit) = (
            used(self.next_used.mark(), &head, len),
            self.next_avail.position(),
        );
        // Release: a driver that sees the flags sees the contents of the buffers.
        let store = |descriptor: &Descriptor| descriptor.store_rest(word, Ordering::Release);
        if !self.next_used.pass(head.slots, limit, store) {
            return Err(UsedError::NotTaken { id: head.id });
        }
        Ok(())
    }

    #[inline]
    fn add_used_batch(
        &mut self,
        chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError> {
        let (first, limit) = (Position::of(&self.next_used), self.next_avail.position());
        // The first descriptor is published last: until then, the driver does not look at the others.
        let mut first_word = None;
        let mut result = Ok(());
        // The position and mark of the current run's descriptor, on an in-order ring. All chains of a run are full.
        let mut run = None;
        for (head, len) in chains {
            let at = Position::of(&self.next_used);
            result = head.check(len, self.features.in_order, at.slot());
            if result.is_err() {
                break;
            }
            let (place, mark) = run.unwrap_or((at, self.next_used.mark()));
            let word = used(mark, &head, len);
            if !self.next_used.pass(head.slots, limit, |_| {}) {
                result = Err(UsedError::NotTaken { id: head.id });
                break;
            }
            if place == first {
                first_word = Some(word);
            } else {
                self.ring.at(place).store_rest(word, Ordering::Relaxed);
            }
            // A chain that was written in full needs no separate used descriptor if another chain follows in the same
            // batch.
            run = (self.features.in_order && len == head.writable).then_some((place, mark));
        }
        if let Some(word) = first_word {
            self.ring.at(first).store_rest(word, Ordering::Release);
        }
        result
    }

    #[inline]
    fn needs_notification(&mut self) -> bool {
        // Orders the store of the descriptors' flags before the load of the driver's event suppression.
        fence(Ordering::SeqCst);
        let next_used = Position::of(&self.next_used);
        if next_used == self.signalled {
            return false;
        }
        let size = self.ring.size();
        let steps = next_used.since(self.signalled, size);
        self.signalled = next_used;
        self.ring.driver_event().wants(next_used, steps, size)
    }

    fn enable_notification(&mut self) -> bool {
        self.ring.set_device_event(if self.features.event_idx {
            EventSuppression::Descriptor(self.next_avail())
        } else {
            EventSuppression::Enable
        });
        // Orders the store of the device's event suppression before the load of a descriptor's flags.
        fence(Ordering::SeqCst);
        look(&self.next_avail).1
    }

    fn disable_notification(&mut self) {
        self.ring.set_device_event(EventSuppression::Disable);
    }
}

impl<M: RingMemory> DeviceControl for PackedDevice<M> {
    fn save<'h>(
        &self,
        heads: impl IntoIterator<Item = &'h Head>,
    ) -> Result<DeviceState, RestoreError> {
        let target = self.target();
        let next_used = Position::of(&self.next_used);
        let unsignalled = next_used.since(self.signalled, target.size);
        let state = DeviceState {
            version: STATE_VERSION,
            ring: target.ring,
            size: target.size,
            features: target.features,
            next_avail: self.next_avail(),
            next_used: next_used.off_wrap(),
            avail_seen: 0,
            unsignalled: save::at_most_many(unsignalled),
            heads: heads.into_iter().map(HeadState::from).collect(),
            broken: self.broken,
        };
        state.check(target)?;
        Ok(state)
    }

    fn restore(&mut self, state: &DeviceState) -> Result<Vec<Head>, RestoreError> {
        let target = self.target();
        let taken = state.check(target)?;
        let next_used = Position::of_off_wrap(state.next_used);
        self.next_used.set(next_used.0);
        self.next_avail.set(next_used.advance(taken, target.size).0);
        self.signalled = next_used.back(state.unsignalled, target.size);
        self.broken = state.broken;
        if state.broken.is_some() {
            self.next_avail.block();
        }
        Ok(state.heads.iter().map(HeadState::head).collect())
    }
}
