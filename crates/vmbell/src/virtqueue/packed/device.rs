//! The device side of a packed ring, owned by one thread at a time (virtio 1.3, 2.8).

use super::ring::{Event, PackedRing, Position};
use crate::virtqueue::descriptor::{self, INDIRECT, NEXT, Table, WRITE};
use crate::virtqueue::memory::RingMemory;
use crate::virtqueue::save::{self, Target};
use crate::virtqueue::sync::{Ordering, fence};
use crate::virtqueue::{
    Chain, DeviceControl, DeviceQueue, DeviceState, Features, Head, HeadState, PackedLayout,
    QueueError, RestoreError, Ring, RingKind, STATE_VERSION, SetupError, UsedError,
};

/// The device side of a packed ring: takes available chains and gives them back as used.
#[derive(Debug)]
pub struct PackedDevice<M> {
    ring: PackedRing<M>,
    features: Features,
    /// The position of the next available chain.
    next_avail: Position,
    /// The position of the next used descriptor to write.
    next_used: Position,
    /// The value of `next_used` when a notification was last considered.
    signalled: Position,
    /// How many ring slots the chains have that were taken and not given back.
    taken: u16,
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
            ring,
            features,
            next_avail: Position::START,
            next_used: Position::START,
            signalled: Position::START,
            taken: 0,
            broken: None,
        }
    }

    /// Why the queue is broken, if it is.
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
        error
    }

    /// Takes the chain of `slots` slots that begins at the next position, which `chain` holds.
    #[inline(always)]
    fn take(&mut self, id: u16, slots: u16, chain: &Chain) -> Result<Option<Head>, QueueError> {
        let size = self.ring.size();
        if id >= size {
            let id = u32::from(id);
            return Err(self.fail(QueueError::IdOutOfRange { id, size }));
        }
        // A driver must not make slots available that belong to chains taken before.
        if slots > size - self.taken {
            let (index, used) = (self.next_avail.off_wrap(), self.next_used.off_wrap());
            return Err(self.fail(QueueError::AvailAhead { index, used, size }));
        }
        let sequence = self.next_avail.slot();
        self.next_avail = self.next_avail.advance(slots, size);
        self.taken += slots;
        Ok(Some(Head {
            id,
            slots,
            sequence,
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

    /// Follows a chain from its second slot on. Each descriptor is read once; the last one has the buffer id. The
    /// limit is the size of the ring, as a longer chain has no end.
    fn walk(&self, first: u64, chain: &mut Chain) -> Result<(u16, u16), QueueError> {
        chain.clear();
        let head = self.next_avail.slot();
        let size = self.ring.size();
        let (mut at, mut rest) = (self.next_avail, first);
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

    fn check_used(
        &self,
        head: &Head,
        len: u32,
        next: Position,
        left: u16,
    ) -> Result<(), UsedError> {
        head.check(len, self.features.in_order, next.slot())?;
        if head.slots > left {
            return Err(UsedError::NotTaken { id: head.id });
        }
        Ok(())
    }
}

/// The second word of a used descriptor.
#[inline]
fn used(position: Position, head: &Head, len: u32) -> u64 {
    let written = if len == 0 { 0 } else { WRITE };
    descriptor::packed::rest(len, head.id, position.used() | written)
}

impl<M: RingMemory> DeviceQueue for PackedDevice<M> {
    fn size(&self) -> u16 {
        self.ring.size()
    }

    #[inline]
    fn pop(&mut self, chain: &mut Chain) -> Result<Option<Head>, QueueError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        // Acquire: the driver has written the rest of the chain before that.
        let first = self.ring.at(self.next_avail);
        let rest = first.load_rest(Ordering::Acquire);
        let flags = descriptor::packed::flags(rest);
        if !self.next_avail.is_available(flags) {
            return Ok(None);
        }
        if flags & (NEXT | INDIRECT) != 0 {
            return self.pop_chain(rest, chain);
        }
        let (addr, len) = (first.load_addr(), descriptor::len(rest));
        let head = self.next_avail.slot();
        if let Err(error) = chain.set_single(head, addr, len, flags & WRITE != 0) {
            return Err(self.fail(error));
        }
        self.take(descriptor::packed::id(rest), 1, chain)
    }

    #[inline]
    fn next_avail(&self) -> u16 {
        self.next_avail.off_wrap()
    }

    #[inline]
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError> {
        let at = self.next_used;
        self.check_used(&head, len, at, self.taken)?;
        // Release: a driver that sees the flags sees the contents of the buffers.
        let descriptor = self.ring.at(at);
        descriptor.store_rest(used(at, &head, len), Ordering::Release);
        self.next_used = at.advance(head.slots, self.ring.size());
        self.taken -= head.slots;
        Ok(())
    }

    #[inline]
    fn add_used_batch(
        &mut self,
        chains: impl IntoIterator<Item = (Head, u32)>,
    ) -> Result<(), UsedError> {
        let (first, size) = (self.next_used, self.ring.size());
        // The first descriptor is published last: the driver does not look at the others before it.
        let mut first_word = None;
        let mut result = Ok(());
        // For an in-order ring: the position of the descriptor of the current run, whose chains are all full.
        let mut run = None;
        for (head, len) in chains {
            let at = self.next_used;
            result = self.check_used(&head, len, at, self.taken);
            if result.is_err() {
                break;
            }
            let place = run.unwrap_or(at);
            let word = used(place, &head, len);
            if place == first {
                first_word = Some(word);
            } else {
                self.ring.at(place).store_rest(word, Ordering::Relaxed);
            }
            // A chain whose writable bytes were all written needs no separate descriptor if another follows.
            run = (self.features.in_order && len == head.writable).then_some(place);
            self.next_used = at.advance(head.slots, size);
            self.taken -= head.slots;
        }
        if let Some(word) = first_word {
            self.ring.at(first).store_rest(word, Ordering::Release);
        }
        result
    }

    #[inline]
    fn needs_notification(&mut self) -> bool {
        // Between the store of the descriptors' flags and the load of the driver's event suppression.
        fence(Ordering::SeqCst);
        if self.next_used == self.signalled {
            return false;
        }
        let size = self.ring.size();
        let steps = self.next_used.since(self.signalled, size);
        self.signalled = self.next_used;
        self.ring.driver_event().wants(self.next_used, steps, size)
    }

    fn enable_notification(&mut self) -> bool {
        self.ring.set_device_event(if self.features.event_idx {
            Event::Descriptor(self.next_avail.off_wrap())
        } else {
            Event::Enable
        });
        // Between the store of the device's event suppression and the load of a descriptor's flags.
        fence(Ordering::SeqCst);
        let flags = descriptor::packed::flags(self.ring.look(self.next_avail));
        self.broken.is_none() && self.next_avail.is_available(flags)
    }

    fn disable_notification(&mut self) {
        self.ring.set_device_event(Event::Disable);
    }
}

impl<M: RingMemory> DeviceControl for PackedDevice<M> {
    fn save<'h>(
        &self,
        heads: impl IntoIterator<Item = &'h Head>,
    ) -> Result<DeviceState, RestoreError> {
        let target = self.target();
        let unsignalled = self.next_used.since(self.signalled, target.size);
        let state = DeviceState {
            version: STATE_VERSION,
            ring: target.ring,
            size: target.size,
            features: target.features,
            next_avail: self.next_avail.off_wrap(),
            next_used: self.next_used.off_wrap(),
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
        self.taken = state.check(target)?;
        self.next_used = Position::of_off_wrap(state.next_used);
        self.next_avail = self.next_used.advance(self.taken, target.size);
        self.signalled = self.next_used.back(state.unsignalled, target.size);
        self.broken = state.broken;
        Ok(state.heads.iter().map(HeadState::head).collect())
    }
}
