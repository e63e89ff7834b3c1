//! Packed rings have no peer to test against. So this file implements each side again, close to the text of virtio 1.3,
//! 2.8: 16-bit fields and boolean wrap counters, without checks or optimizations.

#![allow(clippy::cast_possible_truncation)]

use std::collections::VecDeque;

use super::*;

const SIZES: [u16; 4] = [3, 4, 7, 256];
const ROUNDS: u64 = 2_000;

/// An index and the wrap counter that goes with it.
#[derive(Clone, Copy)]
struct Place {
    index: u16,
    wrap: bool,
}

impl Place {
    const START: Self = Self {
        index: 0,
        wrap: true,
    };

    fn step(&mut self, count: u16, size: u16) {
        self.index += count;
        if self.index >= size {
            self.index -= size;
            self.wrap = !self.wrap;
        }
    }
}

/// One side: the places of its next chain and of its next used descriptor.
struct Side {
    memory: HostMemory,
    size: u16,
    avail: Place,
    used: Place,
}

impl Side {
    fn new(memory: &HostMemory, layout: &PackedLayout) -> Self {
        Self {
            memory: memory.clone(),
            size: layout.size,
            avail: Place::START,
            used: Place::START,
        }
    }

    fn flags(&self, place: Place) -> u16 {
        self.memory.get16(16 * u64::from(place.index) + 14)
    }

    fn set(&self, place: Place, addr: Option<u64>, len: u32, id: u16, flags: u16) {
        let at = 16 * u64::from(place.index);
        if let Some(addr) = addr {
            self.memory.put64(at, addr);
        }
        self.memory.put32(at + 8, len);
        self.memory.put16(at + 12, id);
        self.memory.put16(at + 14, flags);
    }

    /// The device takes the next chain: its id and number of descriptors.
    fn pop(&mut self) -> Option<(u16, u16)> {
        let bit = |flags: u16, bit: u16| flags & bit != 0;
        let first = self.flags(self.avail);
        if bit(first, AVAIL) != self.avail.wrap || bit(first, USED) == self.avail.wrap {
            return None;
        }
        let mut count = 1;
        let mut last = self.avail;
        while bit(self.flags(last), NEXT) {
            last.step(1, self.size);
            count += 1;
        }
        let id = self.memory.get16(16 * u64::from(last.index) + 12);
        self.avail.step(count, self.size);
        Some((id, count))
    }

    /// The device gives a chain back with `len` bytes written.
    fn push(&mut self, (id, count): (u16, u16), len: u32) {
        let wrap = if self.used.wrap { AVAIL | USED } else { 0 };
        self.set(self.used, None, len, id, wrap | WRITE);
        self.used.step(count, self.size);
    }

    /// The driver makes a chain available, with pieces that the device writes.
    fn add(&mut self, id: u16, pieces: u16) {
        let wrap = if self.avail.wrap { AVAIL } else { USED };
        let first = (self.avail, wrap);
        for piece in 1..=pieces {
            let next = if piece == pieces { 0 } else { NEXT };
            let wrap = if self.avail.wrap { AVAIL } else { USED };
            // The first descriptor is made available last, so until then its flags do not change.
            let flags = match piece {
                1 => self.flags(self.avail),
                _ => wrap | WRITE | next,
            };
            self.set(self.avail, Some(BUFFER.addr), BUFFER.len, id, flags);
            self.avail.step(1, self.size);
        }
        let next = if pieces == 1 { 0 } else { NEXT };
        let at = 16 * u64::from(first.0.index) + 14;
        self.memory.put16(at, first.1 | WRITE | next);
    }

    /// The driver takes the next used buffer, and returns its id and length. `count` returns how many descriptors an id
    /// has.
    fn get(&mut self, count: impl Fn(u16) -> u16) -> Option<(u16, u32)> {
        let flags = self.flags(self.used);
        if (flags & AVAIL != 0) != self.used.wrap || (flags & USED != 0) != self.used.wrap {
            return None;
        }
        let at = 16 * u64::from(self.used.index);
        let len = u32::from(self.memory.get16(at + 8));
        let id = self.memory.get16(at + 12);
        self.used.step(count(id), self.size);
        Some((id, len))
    }
}

#[test]
fn our_driver_and_a_plain_device_agree() {
    for size in SIZES {
        let (memory, layout) = (memory(), PackedLayout::contiguous(0, size));
        brand::scoped(|brand| {
            let mut driver = PackedDriver::new(&memory, &layout, PLAIN, brand).unwrap();
            let mut device = Side::new(&memory, &layout);
            for round in 0..ROUNDS {
                let token = driver.enable_cb_prepare::<Token<_>>();
                let mut expected = VecDeque::new();
                let mut chains = VecDeque::new();
                for data in 0.. {
                    let pieces = 1 + (round + data) % 3;
                    let buffers = vec![BUFFER; pieces as usize];
                    if driver.add(&[], &buffers, data).is_err() {
                        break;
                    }
                    let chain = device.pop().unwrap();
                    assert_eq!(u64::from(chain.1), pieces, "ring of {size}");
                    expected.push_back((data, chain.1));
                    chains.push_back(chain);
                }
                assert_eq!(device.pop(), None);
                assert!(!driver.poll(token));
                // In any order: some chains move to the end.
                let late = round as usize % chains.len();
                chains.rotate_left(late);
                expected.rotate_left(late);
                for (chain, (data, count)) in chains.into_iter().zip(expected) {
                    device.push(chain, u32::from(count));
                    assert!(driver.poll(token), "ring of {size}");
                    let used = driver.get_used().unwrap().unwrap();
                    assert_eq!((used.data, used.len), (data, u32::from(count)));
                }
                assert_eq!(driver.free(), size);
            }
        });
    }
}

#[test]
fn a_plain_driver_and_our_device_agree() {
    for size in SIZES {
        let (memory, layout) = (memory(), PackedLayout::contiguous(0, size));
        let mut driver = Side::new(&memory, &layout);
        let mut device = PackedDevice::new(&memory, &layout, PLAIN).unwrap();
        let mut chain = Chain::with_capacity(usize::from(size));
        // An empty ring is all zeros, and an all-zero driver event structure asks for all notifications.
        for round in 0..ROUNDS {
            let pieces = |id: u16| 1 + (round as u16 + id) % 3;
            let mut heads = VecDeque::new();
            let mut free = size;
            for id in (0..size).rev() {
                let Some(left) = free.checked_sub(pieces(id)) else {
                    break;
                };
                free = left;
                driver.add(id, pieces(id));
                let head = device.pop(&mut chain).unwrap().unwrap();
                assert_eq!(head.id(), id, "ring of {size}");
                assert_eq!(chain.writable(), vec![BUFFER; usize::from(pieces(id))]);
                heads.push_back(head);
            }
            assert_eq!(device.pop(&mut chain).unwrap(), None);
            let late = round as usize % heads.len();
            heads.rotate_left(late);
            for head in heads {
                let (id, len) = (head.id(), head.writable_len());
                device.add_used(head, len).unwrap();
                assert!(device.needs_notification());
                assert_eq!(driver.get(pieces), Some((id, len)), "ring of {size}");
            }
            assert_eq!(driver.get(pieces), None);
        }
    }
}
