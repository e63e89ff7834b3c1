//! A position in the buffers of a chain, for a handler that copies piece by piece.

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::queue::HandlerError;
use vmbell::virtqueue::Buffer;

/// A position in a list of buffers.
pub(super) struct Place<'c> {
    pieces: &'c [Buffer],
    done: usize,
}

impl<'c> Place<'c> {
    pub(super) fn new(pieces: &'c [Buffer]) -> Self {
        let mut place = Self { pieces, done: 0 };
        place.advance(0);
        place
    }

    /// How many bytes of this buffer are left; 0 at the end of the list.
    pub(super) fn left(&self) -> usize {
        let len = |piece: &Buffer| usize::try_from(piece.len).unwrap_or(usize::MAX);
        self.pieces.first().map_or(0, len) - self.done
    }

    pub(super) fn address(&self) -> GuestAddress {
        let start = self.pieces.first().map_or(0, |piece| piece.addr);
        // This does not overflow: `Chain` checked that the end of each buffer fits in 64 bits.
        GuestAddress(start + self.done as u64)
    }

    /// Fills `bytes` from the buffers; what is behind their end stays as it is.
    pub(super) fn read(
        &mut self,
        memory: &GuestMemoryMmap,
        bytes: &mut [u8],
    ) -> Result<(), HandlerError> {
        let mut done = 0;
        while done < bytes.len() && self.left() > 0 {
            let step = self.left().min(bytes.len() - done);
            let address = self.address();
            memory
                .read_slice(&mut bytes[done..done + step], address)
                .map_err(|source| HandlerError::Outside { address, source })?;
            self.advance(step);
            done += step;
        }
        Ok(())
    }

    /// Writes `bytes` to the buffers, as far as they go.
    pub(super) fn write(
        &mut self,
        memory: &GuestMemoryMmap,
        bytes: &[u8],
    ) -> Result<(), HandlerError> {
        let mut done = 0;
        while done < bytes.len() && self.left() > 0 {
            let step = self.left().min(bytes.len() - done);
            let address = self.address();
            memory
                .write_slice(&bytes[done..done + step], address)
                .map_err(|source| HandlerError::Outside { address, source })?;
            self.advance(step);
            done += step;
        }
        Ok(())
    }

    pub(super) fn advance(&mut self, by: usize) {
        self.done += by;
        while self.left() == 0
            && let Some((_, rest)) = self.pieces.split_first()
        {
            (self.pieces, self.done) = (rest, 0);
        }
    }
}
