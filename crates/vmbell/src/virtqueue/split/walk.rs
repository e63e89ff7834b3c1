//! Follows a chain through the descriptor table of a split ring (virtio 1.3, 2.7.5).
//!
//! Each descriptor is read once. A chain that continues after as many descriptors as the table has
//! must have a loop.

use crate::virtqueue::{
    Chain, QueueError,
    descriptor::{self, INDIRECT, NEXT, WRITE},
    indirect::Table,
    memory::RingMemory,
};

use super::SplitDevice;

impl<M: RingMemory> SplitDevice<M> {
    /// Adds the buffers of chain `head`, whose first descriptor the caller has read.
    #[inline(never)]
    pub(super) fn walk(
        &self,
        head: u16,
        addr: u64,
        rest: u64,
        chain: &mut Chain,
    ) -> Result<(), QueueError> {
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
