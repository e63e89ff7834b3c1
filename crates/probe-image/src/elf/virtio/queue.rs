//! A split virtqueue of 8 descriptors with one request at a time (virtio 1.2, 2.7). Its layout is that of legacy
//! devices, which all devices accept. All of it is atomics, because the device shares it.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, fence};

/// How many descriptors a queue has.
pub const SIZE: u16 = 8;
const NO_INTERRUPT: u16 = 1;
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
}

/// The queue, and the memory that its requests use.
#[repr(C, align(4096))]
pub struct Queue {
    descriptors: [Descriptor; SIZE as usize],
    flags: AtomicU16,
    index: AtomicU16,
    ring: [AtomicU16; SIZE as usize],
    used: Used,
    /// What the device reads.
    pub header: [AtomicU8; 128],
    /// What the device writes.
    pub data: [AtomicU8; 512],
    /// The status that a block device writes.
    pub status: AtomicU8,
}

/// A part of a request.
pub struct Part<'a> {
    pub bytes: &'a [AtomicU8],
    pub device_writes: bool,
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
            used: Used {
                flags: AtomicU16::new(0),
                index: AtomicU16::new(0),
                ring: [const { [const { AtomicU32::new(0) }; 2] }; SIZE as usize],
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
        for ((place, part), next) in self.descriptors.iter().zip(parts).zip(1..) {
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
            place.next.store(next, Relaxed);
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

    /// Returns whether the device has used everything that was made available.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.used.index.load(Acquire) == self.index.load(Relaxed)
    }
}
