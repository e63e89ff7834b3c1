//! A request: a chain that the driver has made available, while the device has it, and the bytes of its buffers.
//!
//! A handler completes a request at once, or takes it as a [`Pending`] request, which any thread completes later.
//! Requests may complete in any order. After a reset by the driver, nothing of the request reaches guest memory.
//!
//! A driver may cut a request into pieces as it likes (virtio 1.3, 2.7.4), so a device reads and writes bytes, not
//! buffers. Each buffer is looked up once, when the request is taken. The driver can change the contents at any time, so
//! a device must copy what it checks.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use vm_memory::{
    GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap,
    VolatileSlice,
};

use super::driver::HandlerError;
use super::live_ring::{Late, Live, LiveRing, Taken, used_len};
use vmbell_virtqueue::{Buffer, Head};

/// A request while a handler has it. All of its buffers are in guest memory.
#[must_use = "a request that is neither completed nor deferred is lost to the driver"]
pub struct Request<'r> {
    pub(super) slices: &'r SliceList<'r>,
    pub(super) head: Head,
    pub(super) live: &'r Live,
    pub(super) ring: &'r Arc<LiveRing>,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("chain", &self.live.chain)
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

/// What a handler has done with a request.
#[derive(Debug)]
#[must_use = "the queue has to give the request back"]
pub struct Handled(pub(super) Outcome);

#[derive(Debug)]
pub(super) enum Outcome {
    /// The request goes back, with this number of bytes written.
    Complete(Head, u32),
    Deferred,
    /// The request is handled again when the queue is served again.
    Waits(Head),
}

impl Request<'_> {
    /// The index of the request's queue.
    pub fn queue(&self) -> u16 {
        self.ring.index()
    }

    /// The part that the device reads.
    #[inline]
    pub fn readable(&self) -> Readable<'_> {
        self.slices.readable()
    }

    /// The part that the device writes.
    #[inline]
    pub fn writable(&self) -> Writable<'_> {
        self.slices.writable()
    }

    /// Completes the request, with this number of bytes written from the start of the writable part.
    #[inline]
    pub fn complete(self, written: usize) -> Handled {
        Handled(Outcome::Complete(self.head, used_len(written)))
    }

    /// Leaves the request waiting for the host: it is handled again, before any later one, when the
    /// [source](super::Handler::sources) of its queue becomes readable.
    pub fn wait(self) -> Handled {
        Handled(Outcome::Waits(self.head))
    }

    /// Takes the request, to complete it later.
    pub fn defer(self) -> (Pending, Handled) {
        self.ring.expect_late();
        let pending = Pending {
            writable: self.live.chain.writable().into(),
            taken: self.live.taken(self.head),
            ring: Arc::clone(self.ring),
        };
        (pending, Handled(Outcome::Deferred))
    }
}

/// A request that any thread completes later. If it is dropped, the device keeps it until the driver resets the device.
/// If `VIRTIO_F_IN_ORDER` was negotiated, the device also keeps all later requests.
#[must_use = "a request that is not completed is lost to the driver"]
pub struct Pending {
    writable: Box<[Buffer]>,
    taken: Taken,
    ring: Arc<LiveRing>,
}

impl Pending {
    /// Completes the request. `answer` writes what the device writes, and returns the number of bytes, from the first
    /// one on. `answer` is called here, or by the thread that is serving the queue. No other thread has the queue
    /// during the call, so it must not wait for anything. It is not called if the driver has reset the device or the
    /// queue. The driver is interrupted if it wants an interrupt.
    pub fn complete(self, answer: impl FnOnce(Writable<'_>) -> usize + Send + 'static) {
        let writable = self.writable;
        self.ring.complete(Late {
            taken: self.taken,
            answer: Box::new(move |memory| {
                let mut slices = SliceList::new(memory);
                slices.look_up(&[], &writable)?;
                Ok(answer(slices.writable()))
            }),
        });
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

/// How many slices there are room for without an allocation: a disk's request has three or more.
const FEW: usize = 8;

/// The slices of a request, in storage that the next request reuses.
pub(super) struct SliceList<'m> {
    memory: &'m GuestMemoryMmap,
    /// The region of the last buffer. The next buffer is usually there as well; to check that costs less than a search.
    region: Option<&'m GuestRegionMmap>,
    few: [VolatileSlice<'m>; FEW],
    len: usize,
    /// All slices, if there are too many for `few`.
    many: Vec<VolatileSlice<'m>>,
    /// How many slices are readable; they come first.
    readable: usize,
    /// The number of bytes in the readable and in the writable slices.
    bytes: [usize; 2],
}

impl<'m> SliceList<'m> {
    #[inline]
    pub(super) fn new(memory: &'m GuestMemoryMmap) -> Self {
        Self {
            memory,
            region: memory.iter().next(),
            few: [(); FEW].map(|()| empty()),
            len: 0,
            many: Vec::new(),
            readable: 0,
            bytes: [0; 2],
        }
    }

    /// Looks up the buffers of a request; their slices replace those of the last request. A buffer that spans two
    /// regions has two slices, and an empty buffer has none.
    pub(super) fn look_up(
        &mut self,
        readable: &[Buffer],
        writable: &[Buffer],
    ) -> Result<(), HandlerError> {
        self.len = 0;
        self.many.clear();
        self.bytes[0] = self.add(readable)?;
        self.readable = self.len;
        self.bytes[1] = self.add(writable)?;
        Ok(())
    }

    /// What a device reads.
    #[inline]
    pub(super) fn readable(&self) -> Readable<'_> {
        Slices::new(&self.as_slice()[..self.readable], self.bytes[0])
    }

    /// What a device writes.
    #[inline]
    pub(super) fn writable(&self) -> Writable<'_> {
        Slices::new(&self.as_slice()[self.readable..], self.bytes[1])
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[VolatileSlice<'m>] {
        self.few.get(..self.len).unwrap_or(&self.many)
    }

    /// Adds the slices of buffers, and returns how many bytes they have. Inlined at both call sites, although that is
    /// longer: a call costs a small request 6 % of its time.
    #[inline(always)]
    fn add(&mut self, buffers: &[Buffer]) -> Result<usize, HandlerError> {
        let mut bytes = 0;
        for buffer in buffers.iter().filter(|buffer| buffer.len > 0) {
            let (address, len) = (GuestAddress(buffer.addr), buffer.len as usize);
            match self.region.and_then(|region| find(region, address, len)) {
                Some(slice) => self.push(slice),
                None => self.add_of_other_regions(address, len)?,
            }
            bytes += len;
        }
        Ok(bytes)
    }

    /// Adds the slices of a buffer that is not entirely in the region of the last buffer.
    #[cold]
    fn add_of_other_regions(
        &mut self,
        address: GuestAddress,
        len: usize,
    ) -> Result<(), HandlerError> {
        self.region = self.memory.find_region(address);
        if let Some(slice) = self.region.and_then(|region| find(region, address, len)) {
            self.push(slice);
            return Ok(());
        }
        for slice in GuestMemoryBackend::get_slices(self.memory, address, len) {
            self.push(slice.map_err(|source| HandlerError::Outside { address, source })?);
        }
        Ok(())
    }

    #[inline]
    fn push(&mut self, slice: VolatileSlice<'m>) {
        if let Some(place) = self.few.get_mut(self.len) {
            *place = slice;
        } else {
            if self.len == FEW {
                self.copy_to_many();
            }
            self.many.push(slice);
        }
        self.len += 1;
    }

    #[cold]
    fn copy_to_many(&mut self) {
        self.many.extend(self.few);
    }
}

/// The slice of a buffer that is all in this region.
#[inline]
fn find(region: &GuestRegionMmap, address: GuestAddress, len: usize) -> Option<VolatileSlice<'_>> {
    let at = region.to_region_addr(address)?;
    region.get_slice(at, len).ok()
}

/// A slice without bytes.
#[inline]
fn empty<'m>() -> VolatileSlice<'m> {
    VolatileSlice::from(&mut [][..])
}

/// The bytes of a request that a device may read, from a position on.
pub type Readable<'r> = Slices<'r, false>;

/// The bytes of a request that a device may write, from a position on.
pub type Writable<'r> = Slices<'r, true>;

/// The bytes of a request in one direction, from a position on.
#[derive(Clone, Copy, Debug)]
pub struct Slices<'r, const WRITABLE: bool> {
    /// What is left of the first slice.
    first: VolatileSlice<'r>,
    rest: &'r [VolatileSlice<'r>],
    /// Bytes from the position to the end, which may be before the end of the slices.
    left: usize,
}

impl<'r, const WRITABLE: bool> Slices<'r, WRITABLE> {
    /// The first `left` bytes of these slices, which have that many. No slice is empty.
    #[inline]
    pub(super) fn new(slices: &'r [VolatileSlice<'r>], left: usize) -> Self {
        let (first, rest) = match slices {
            [first, rest @ ..] => (*first, rest),
            [] => (empty(), slices),
        };
        Self { first, rest, left }
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

    /// Goes forward by `bytes`, but not past the end.
    pub fn skip(&mut self, bytes: usize) {
        self.pass(bytes, |_, _| ());
    }

    /// The bytes before an offset, and the bytes from there on.
    pub fn split_at(self, offset: usize) -> (Self, Self) {
        let left = offset.min(self.left);
        let mut rest = self;
        rest.skip(left);
        (Self { left, ..self }, rest)
    }

    /// What is left of the first slice.
    fn first(&self) -> Option<VolatileSlice<'r>> {
        let len = self.first.len().min(self.left);
        self.first.subslice(0, len).ok().filter(|_| len > 0)
    }

    /// Goes forward by `bytes`, at most to the end, and returns how many bytes that was. For each slice on the way,
    /// calls `act` with what is left of the slice and with the range of `bytes` that begins there.
    #[inline]
    fn pass(
        &mut self,
        bytes: usize,
        mut act: impl FnMut(VolatileSlice<'r>, Range<usize>),
    ) -> usize {
        let bytes = bytes.min(self.left);
        let mut passed = 0;
        while passed < bytes {
            let end = bytes.min(passed + self.first.len());
            act(self.first, passed..end);
            self.advance(end - passed);
            passed = end;
        }
        self.left -= bytes;
        bytes
    }

    /// Goes forward by a number of bytes of the first slice.
    #[inline]
    fn advance(&mut self, bytes: usize) {
        if bytes < self.first.len() {
            self.first = self.first.offset(bytes).unwrap_or_else(|_| empty());
        } else if let [first, rest @ ..] = self.rest {
            (self.first, self.rest) = (*first, rest);
        }
    }
}

impl Readable<'_> {
    /// Copies the bytes that are left to the start of `bytes`, as far as they fit, and returns their number.
    #[inline]
    pub fn read(&mut self, bytes: &mut [u8]) -> usize {
        self.pass(bytes.len(), |slice, at| {
            slice.copy_to(&mut bytes[at]);
        })
    }
}

impl Writable<'_> {
    /// Writes as many of the `bytes` as there is room for, and returns their number.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        self.pass(bytes.len(), |slice, at| slice.copy_from(&bytes[at]))
    }
}

#[cfg(test)]
#[path = "request_test.rs"]
mod tests;

#[cfg(test)]
#[path = "slices_test.rs"]
mod slices_tests;
