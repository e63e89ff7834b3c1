//! The device side of a packed ring, owned by one thread at a time (virtio 1.3, 2.8).

use crate::virtqueue::{
    Chain, DeviceQueue, Features, Head, PackedLayout, QueueError, SetupError, UsedError,
    descriptor::{self, Descriptor, INDIRECT, NEXT, WRITE},
    indirect::Table,
    memory::RingMemory,
    sync::{Ordering, fence},
};

use super::{
    position::Position,
    ring::{Event, PackedRing},
};

/// Takes chains from a packed ring and gives them back used.
#[derive(Debug)]
pub struct PackedDevice<M> {
    ring: PackedRing<M>,
    features: Features,
    /// Where the next chain will be.
    next_avail: Position,
    /// Where the next used descriptor goes.
    next_used: Position,
    /// The same when a notification was last considered.
    signalled: Position,
    /// Ring slots of the chains that were taken and not given back.
    taken: u16,
    broken: Option<QueueError>,
}

impl<M: RingMemory> PackedDevice<M> {
    /// Takes the device's side of a ring that a driver has emptied.
    ///
    /// # Errors
    ///
    /// If the layout has no proper size, or a part of it is misaligned or outside of `memory`.
    pub fn new(memory: &M, layout: &PackedLayout, features: Features) -> Result<Self, SetupError> {
        let ring = PackedRing::resolve(memory, layout)?;
        Ok(Self::over(ring, features))
    }

    /// The same, for a ring of this process.
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

    #[cold]
    fn fail(&mut self, error: QueueError) -> QueueError {
        self.broken = Some(error);
        error
    }

    /// Reads the chain that begins with `first`, in which `rest` was found; gives its id and how
    /// many slots it fills.
    #[inline]
    fn read_chain(
        &self,
        first: &Descriptor,
        rest: u64,
        chain: &mut Chain,
    ) -> Result<(u16, u16), QueueError> {
        let (size, id) = (self.ring.size(), descriptor::packed::id(rest));
        let flags = descriptor::packed::flags(rest);
        let (id, slots) = if flags & (NEXT | INDIRECT) == 0 {
            let (addr, len) = (first.load_addr(), descriptor::len(rest));
            let head = self.next_avail.slot();
            chain.set_single(head, addr, len, flags & WRITE != 0)?;
            (id, 1)
        } else {
            self.walk(rest, chain)?
        };
        if id >= size {
            let id = u32::from(id);
            return Err(QueueError::IdOutOfRange { id, size });
        }
        // Slots that were taken are not the driver's to offer.
        if slots > size - self.taken {
            let (index, used) = (self.next_avail.off_wrap(), self.next_used.off_wrap());
            return Err(QueueError::AvailAhead { index, used, size });
        }
        Ok((id, slots))
    }

    /// Follows a chain over the slots behind the first. Each descriptor is read once; the last
    /// has the id. A chain that is longer than the ring would go round for ever.
    #[inline(never)]
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
        // Acquire: the rest of the chain is the driver's, too.
        let first = self.ring.at(self.next_avail);
        let rest = first.load_rest(Ordering::Acquire);
        if !self
            .next_avail
            .is_available(descriptor::packed::flags(rest))
        {
            return Ok(None);
        }
        let (id, slots) = match self.read_chain(first, rest, chain) {
            Ok(read) => read,
            Err(error) => return Err(self.fail(error)),
        };
        let sequence = self.next_avail.slot();
        self.next_avail = self.next_avail.advance(slots, self.ring.size());
        self.taken += slots;
        Ok(Some(Head {
            id,
            slots,
            sequence,
            writable: chain.writable_len(),
        }))
    }

    #[inline]
    fn add_used(&mut self, head: Head, len: u32) -> Result<(), UsedError> {
        let at = self.next_used;
        self.check_used(&head, len, at, self.taken)?;
        // Release: whoever sees the flags sees what was written to the buffers.
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
        // The first is published last: the driver does not look at the others before it.
        let mut first_word = None;
        let mut result = Ok(());
        // Of an in-order run whose chains are all full: the place of its descriptor.
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
            // A full chain needs no descriptor of its own if a later one follows.
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
        // Between the descriptors' flags and the look at what the driver asks for.
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
        // Between the request and the next look at a descriptor.
        fence(Ordering::SeqCst);
        let flags = descriptor::packed::flags(self.ring.look(self.next_avail));
        self.broken.is_none() && self.next_avail.is_available(flags)
    }

    fn disable_notification(&mut self) {
        self.ring.set_device_event(Event::Disable);
    }
}
