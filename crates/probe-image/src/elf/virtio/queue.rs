//! A split virtqueue of 8 descriptors (virtio 1.2, 2.7): for rows, with one request at a time. Its layout is that of
//! legacy devices, which all devices accept. A packed ring of a sweep (2.8) uses the same memory. All of it is atomics, because the device shares it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

/// How many descriptors a queue has.
pub const SIZE: u16 = 8;
const NO_INTERRUPT: u16 = 1;
const NO_NOTIFY: u16 = 1;
const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;

#[repr(C)]
struct Descriptor {
    address: AtomicU64,
    len: AtomicU32,
    flags: AtomicU16,
    next: AtomicU16,
}

#[repr(C, align(4096))]
struct Used {
    flags: AtomicU16,
    index: AtomicU16,
    ring: [[AtomicU32; 2]; SIZE as usize],
    avail_event: AtomicU16,
}

/// The queue, and the memory that its requests use.
#[repr(C, align(4096))]
pub struct Queue {
    descriptors: [Descriptor; SIZE as usize],
    flags: AtomicU16,
    index: AtomicU16,
    ring: [AtomicU16; SIZE as usize],
    used_event: AtomicU16,
    used: Used,
    /// What the device reads.
    pub header: [AtomicU8; 128],
    /// What the device writes.
    pub data: [AtomicU8; 512],
    /// The status that a block device writes.
    pub status: AtomicU8,
}

/// The queue's words that say who has to notify whom.
#[derive(Clone, Copy)]
pub struct Words {
    pub available: u16,
    pub used: u16,
    pub avail_event: u16,
    pub used_event: u16,
    /// The device's flag in the used ring. It applies without EVENT_IDX.
    pub no_notify: bool,
}

/// What a descriptor of a packed ring has in the split one's flags and index of the next.
#[derive(Clone, Copy)]
pub struct PackedDescriptor {
    pub id: u16,
    pub flags: u16,
}

/// A part of a request.
pub struct Part<'a> {
    pub bytes: &'a [AtomicU8],
    pub device_writes: bool,
}

impl<'a> Part<'a> {
    /// A part that the device writes.
    pub fn from_device(bytes: &'a [AtomicU8]) -> Self {
        Self {
            bytes,
            device_writes: true,
        }
    }

    /// A part that the device reads.
    pub fn to_device(bytes: &'a [AtomicU8]) -> Self {
        Self {
            bytes,
            device_writes: false,
        }
    }
}

impl Queue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            descriptors: [const {
                Descriptor {
                    address: AtomicU64::new(0),
                    len: AtomicU32::new(0),
                    flags: AtomicU16::new(0),
                    next: AtomicU16::new(0),
                }
            }; SIZE as usize],
            flags: AtomicU16::new(0),
            index: AtomicU16::new(0),
            ring: [const { AtomicU16::new(0) }; SIZE as usize],
            used_event: AtomicU16::new(0),
            used: Used {
                flags: AtomicU16::new(0),
                index: AtomicU16::new(0),
                ring: [const { [const { AtomicU32::new(0) }; 2] }; SIZE as usize],
                avail_event: AtomicU16::new(0),
            },
            header: [const { AtomicU8::new(0) }; 128],
            data: [const { AtomicU8::new(0) }; 512],
            status: AtomicU8::new(0),
        }
    }

    /// The addresses of the descriptors, of the available ring and of the used ring.
    pub fn addresses(&self) -> [u64; 3] {
        [
            core::ptr::from_ref(&self.descriptors) as u64,
            core::ptr::from_ref(&self.flags) as u64,
            core::ptr::from_ref(&self.used) as u64,
        ]
    }

    /// Prepares the request that every submission makes: a chain from descriptor 0 on. No interrupt is requested.
    pub fn prepare(&self, parts: &[Part<'_>]) {
        self.flags.store(NO_INTERRUPT, Relaxed);
        // Another device, which failed, may have used the queue earlier.
        self.index.store(0, Relaxed);
        self.used.index.store(0, Relaxed);
        self.chain(0, parts);
    }

    /// Writes a request's descriptors, from this one on.
    pub fn chain(&self, first: u16, parts: &[Part<'_>]) {
        let places = self.descriptors.iter().skip(usize::from(first));
        for ((place, part), next) in places.zip(parts).zip(1..) {
            place.address.store(part.bytes.as_ptr() as u64, Relaxed);
            let len = u32::try_from(part.bytes.len()).unwrap_or(0);
            place.len.store(len, Relaxed);
            let more = if usize::from(next) < parts.len() {
                NEXT
            } else {
                0
            };
            let write = if part.device_writes { DEVICE_WRITES } else { 0 };
            place.flags.store(more | write, Relaxed);
            place.next.store(first + next, Relaxed);
        }
    }

    /// Tells the device whether to interrupt after it uses a buffer.
    pub fn ask_for_interrupts(&self, wanted: bool) {
        self.flags
            .store(if wanted { 0 } else { NO_INTERRUPT }, SeqCst);
    }

    /// Makes the request available.
    #[inline]
    pub fn submit(&self) {
        let index = self.index.load(Relaxed);
        self.ring[usize::from(index % SIZE)].store(0, Relaxed);
        self.index.store(index.wrapping_add(1), Release);
        // The notification must not overtake the index.
        fence(SeqCst);
    }

    /// Makes the request that begins with this descriptor available. The driver's next decision whether to notify the
    /// device must not overtake the index.
    pub fn offer(&self, descriptor: u16) {
        let index = self.index.load(Relaxed);
        self.ring[usize::from(index % SIZE)].store(descriptor, Relaxed);
        self.index.store(index.wrapping_add(1), Release);
        fence(SeqCst);
    }

    /// Returns the first descriptor of the answer with this index, if the device has given it.
    pub fn answer(&self, index: u16) -> Option<u32> {
        let [descriptor, _] = &self.used.ring[usize::from(index % SIZE)];
        (self.used.index.load(Acquire) != index).then(|| descriptor.load(Relaxed))
    }

    /// Sets the answer after which the driver wants an interrupt (EVENT_IDX).
    pub fn set_used_event(&self, index: u16) {
        self.used_event.store(index, Relaxed);
        // The driver's later reads of the used ring come after the store.
        fence(SeqCst);
    }

    /// Writes a descriptor of a packed ring (virtio 1.2, 2.8.13). `own` is the bit that makes it the device's; the
    /// notification must not overtake it.
    pub fn offer_packed(&self, index: u16, id: u16, part: &Part<'_>, has_next: bool, own: u16) {
        let place = &self.descriptors[usize::from(index)];
        place.address.store(part.bytes.as_ptr() as u64, Relaxed);
        let len = u32::try_from(part.bytes.len()).unwrap_or(0);
        place.len.store(len, Relaxed);
        place.flags.store(id, Relaxed);
        let write = if part.device_writes { DEVICE_WRITES } else { 0 };
        let next = if has_next { NEXT } else { 0 };
        place.next.store(own | write | next, Release);
        fence(SeqCst);
    }

    /// A descriptor of a packed ring.
    pub fn packed(&self, index: u16) -> PackedDescriptor {
        let place = &self.descriptors[usize::from(index)];
        let flags = place.next.load(Acquire);
        PackedDescriptor {
            id: place.flags.load(Relaxed),
            flags,
        }
    }

    /// The driver's event suppression structure of a packed ring: a position and the flags.
    pub fn driver_event(&self) -> [u16; 2] {
        [self.flags.load(Relaxed), self.index.load(Relaxed)]
    }

    /// Sets the driver's event suppression structure.
    pub fn set_driver_event(&self, [position, flags]: [u16; 2]) {
        self.flags.store(position, Relaxed);
        self.index.store(flags, Release);
        // The driver's later reads of the used ring come after the store.
        fence(SeqCst);
    }

    /// The device's event suppression structure of a packed ring.
    pub fn device_event(&self) -> [u16; 2] {
        let flags = self.used.index.load(Acquire);
        [self.used.flags.load(Relaxed), flags]
    }

    /// The queue's words.
    pub fn words(&self) -> Words {
        Words {
            available: self.index.load(SeqCst),
            used: self.used.index.load(SeqCst),
            avail_event: self.used.avail_event.load(SeqCst),
            used_event: self.used_event.load(SeqCst),
            no_notify: self.used.flags.load(SeqCst) & NO_NOTIFY != 0,
        }
    }

    /// Returns whether the device has used everything that was made available.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.used.index.load(Acquire) == self.index.load(Relaxed)
    }
}
