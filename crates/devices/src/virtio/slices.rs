//! The buffers of a request as slices of guest memory, and positions in them. A driver may cut a request into pieces as it
//! likes (virtio 1.3, 2.7.4), so a device reads and writes bytes, not buffers.
//!
//! Each buffer is looked up once, when the request is taken. The driver can change the contents at any time: what a
//! device checks has to be a copy.

use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, VolatileSlice};

use super::queue::HandlerError;
use vmbell::virtqueue::Buffer;

/// How many slices there are room for without an allocation: a disk's request has three or more.
const FEW: usize = 8;

/// The slices of a request, in a place that the next request uses again.
pub(super) struct SliceList<'m> {
    few: [VolatileSlice<'m>; FEW],
    len: usize,
    /// All of them, if they are too many for `few`.
    many: Vec<VolatileSlice<'m>>,
}

impl<'m> SliceList<'m> {
    pub(super) fn new() -> Self {
        Self {
            few: [(); FEW].map(|()| VolatileSlice::from(&mut [][..])),
            len: 0,
            many: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.many.clear();
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[VolatileSlice<'m>] {
        self.few.get(..self.len).unwrap_or(&self.many)
    }

    #[inline]
    fn push(&mut self, slice: VolatileSlice<'m>) {
        if let Some(place) = self.few.get_mut(self.len) {
            *place = slice;
        } else {
            if self.len == FEW {
                self.many.extend(self.few);
            }
            self.many.push(slice);
        }
        self.len += 1;
    }

    /// Adds the slices of guest memory that buffers are. A buffer that spans two regions is two slices, an empty one none.
    #[inline]
    pub(super) fn look_up(
        &mut self,
        memory: &'m GuestMemoryMmap,
        buffers: &[Buffer],
    ) -> Result<(), HandlerError> {
        for buffer in buffers.iter().filter(|buffer| buffer.len > 0) {
            let address = GuestAddress(buffer.addr);
            let len = usize::try_from(buffer.len).unwrap_or(usize::MAX);
            if let Ok(slice) = GuestMemoryBackend::get_slice(memory, address, len) {
                self.push(slice);
                continue;
            }
            for slice in GuestMemoryBackend::get_slices(memory, address, len) {
                self.push(slice.map_err(|source| HandlerError::Outside { address, source })?);
            }
        }
        Ok(())
    }
}

/// What a device may read of a request, from a position on.
pub type Readable<'r> = Slices<'r, false>;

/// What a device may write of a request, from a position on.
pub type Writable<'r> = Slices<'r, true>;

/// The bytes of a request in one direction, from a position on.
#[derive(Clone, Copy, Debug)]
pub struct Slices<'r, const WRITABLE: bool> {
    slices: &'r [VolatileSlice<'r>],
    /// Bytes of the first slice that are before the position.
    done: usize,
    /// Bytes from the position to the end, which may be before the end of the slices.
    left: usize,
}

impl<'r, const WRITABLE: bool> Slices<'r, WRITABLE> {
    /// The bytes of these slices, none of which is empty, and how many bytes they have.
    #[inline]
    pub(super) fn new(slices: &'r [VolatileSlice<'r>], left: usize) -> Self {
        let done = 0;
        Self { slices, done, left }
    }

    /// How many bytes are left: below 4 GiB.
    pub const fn len(&self) -> usize {
        self.left
    }

    /// Whether no byte is left.
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The slices of guest memory that are left, none of which is empty.
    pub fn slices(mut self) -> impl Iterator<Item = VolatileSlice<'r>> {
        std::iter::from_fn(move || {
            let first = self.first()?;
            self.skip(first.len());
            Some(first)
        })
    }

    /// Goes forward by a number of bytes, at most to the end.
    pub fn skip(&mut self, bytes: usize) {
        self.pass(bytes, |_, _| ());
    }

    /// The bytes before an offset, and those from there on.
    pub fn split_at(self, offset: usize) -> (Self, Self) {
        let left = offset.min(self.left);
        let mut rest = self;
        rest.skip(left);
        (Self { left, ..self }, rest)
    }

    /// What is left of the first slice.
    fn first(&self) -> Option<VolatileSlice<'r>> {
        let first = self.slices.first().filter(|_| self.left > 0)?;
        let len = (first.len() - self.done).min(self.left);
        first.subslice(self.done, len).ok()
    }

    /// Goes forward by `bytes`, at most to the end, and returns by how many. Calls `act` with each part of a slice on the
    /// way and with the number of bytes before it.
    #[inline]
    fn pass(&mut self, bytes: usize, mut act: impl FnMut(VolatileSlice<'r>, usize)) -> usize {
        let bytes = bytes.min(self.left);
        let mut passed = 0;
        while passed < bytes
            && let Some((first, rest)) = self.slices.split_first()
        {
            let len = first.len() - self.done;
            let step = len.min(bytes - passed);
            if let Ok(part) = first.subslice(self.done, step) {
                act(part, passed);
            }
            if step == len {
                (self.slices, self.done) = (rest, 0);
            } else {
                self.done += step;
            }
            passed += step;
        }
        self.left -= passed;
        passed
    }
}

impl Readable<'_> {
    /// Copies to the start of `bytes` as many as are left, and returns how many these are.
    pub fn read(&mut self, bytes: &mut [u8]) -> usize {
        self.pass(bytes.len(), |slice, at| {
            slice.copy_to(&mut bytes[at..]);
        })
    }
}

impl Writable<'_> {
    /// Writes as many of the `bytes` as there is room for, and returns how many these are.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        self.pass(bytes.len(), |slice, at| slice.copy_from(&bytes[at..]))
    }
}

#[cfg(test)]
#[path = "slices_test.rs"]
mod tests;
