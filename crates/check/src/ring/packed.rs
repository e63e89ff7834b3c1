//! Both sides of a packed ring as specified in virtio 1.3, 2.8.

use std::slice;

use super::buffers::Buffers;
use super::{Load, Ring};
use crate::graph::Order::{Acquire, Relaxed, Release, SeqCst};
use crate::shared::{claim, fence, spurious_wake_up};

const AVAIL: u16 = 1 << 7;
const USED: u16 = 1 << 15;
/// Event suppression: notify never, or at a descriptor.
const DISABLE: u16 = 1;
const DESCRIPTOR: u16 = 2;

/// A position in the ring, and the wrap counter there.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    slot: u16,
    wrap: bool,
    size: u16,
}

impl Position {
    fn new(ring: &Ring) -> Position {
        Position {
            slot: 0,
            wrap: true,
            size: ring.shape.size,
        }
    }

    /// Moves on by `slots`, at most the size of the ring.
    fn advance(&mut self, slots: u16) {
        self.slot += slots;
        if self.slot >= self.size {
            self.slot -= self.size;
            self.wrap = !self.wrap;
        }
    }

    fn off_wrap(self) -> u16 {
        self.slot | u16::from(self.wrap) << 15
    }

    fn flags_when_available(self) -> u16 {
        if self.wrap { AVAIL } else { USED }
    }

    fn flags_when_used(self) -> u16 {
        if self.wrap { AVAIL | USED } else { 0 }
    }
}

/// Returns whether the other side wants to be notified of the descriptors from `old` to `new`.
fn wanted(ring: &Ring, event: u16, old: Position, new: Position) -> bool {
    let word = ring.load32(event, Relaxed);
    let (off_wrap, flags) = ((word & 0xFFFF) as u16, (word >> 16) as u16);
    match flags & 3 {
        DISABLE => false,
        DESCRIPTOR => {
            let size = i32::from(ring.shape.size);
            let mut event = i32::from(off_wrap & 0x7FFF);
            if (off_wrap >> 15 != 0) != new.wrap {
                event -= size;
            }
            let (new_at, mut old_at) = (i32::from(new.slot), i32::from(old.slot));
            if old.wrap != new.wrap {
                old_at -= size;
            }
            (old_at..new_at).contains(&event)
        }
        _ => true,
    }
}

fn suppress(ring: &Ring, event: u16, at: Position, enabled: bool) {
    let flags = match (enabled, ring.shape.event_idx) {
        (false, _) => DISABLE,
        (true, true) => DESCRIPTOR,
        (true, false) => 0,
    };
    ring.store32(
        event,
        u32::from(flags) << 16 | u32::from(at.off_wrap()),
        Relaxed,
    );
}

pub(super) fn drive(ring: &Ring, load: Load) {
    let mut buffers = Buffers::new(ring.shape);
    let (mut avail, mut used) = (Position::new(ring), Position::new(ring));
    let (mut sent, mut answered) = (0, 0);
    let mut woken = false;
    let kick = |old: Position, new: Position| {
        fence(SeqCst);
        if wanted(ring, ring.device, old, new) {
            ring.kick();
        }
    };
    loop {
        let first = avail;
        let mut added = false;
        while sent < load.requests && sent - answered < load.depth {
            let Some(id) = buffers.send() else { break };
            let descriptor = usize::from(ring.descriptors + 16 * avail.slot);
            ring.memory.store(descriptor, 8, 0x800, Relaxed);
            ring.memory.store(descriptor + 8, 4, 8, Relaxed);
            ring.memory.store(descriptor + 12, 2, id.into(), Relaxed);
            ring.memory.store(
                descriptor + 14,
                2,
                u64::from(avail.flags_when_available() | 2),
                Release,
            );
            let old = avail;
            avail.advance(1);
            sent += 1;
            added = true;
            if !load.batch {
                kick(old, avail);
            }
        }
        if load.batch && added {
            kick(first, avail);
        }
        let has_used = |used: Position, order| {
            let flags = ring.load16(ring.descriptors + 16 * used.slot + 14, order);
            flags & (AVAIL | USED) == used.flags_when_used()
        };
        let before = answered;
        loop {
            if !load.armed {
                suppress(ring, ring.driver, used, false);
            }
            let budget = sent.min(answered.saturating_add(load.budget));
            while answered < budget {
                let id = || {
                    let id = ring.descriptors + 16 * used.slot + 12;
                    has_used(used, Acquire).then(|| ring.load16(id, Relaxed).into())
                };
                if !buffers.take(id) {
                    break;
                }
                answered += 1;
                used.advance(1);
            }
            let mut event = used;
            if load.late {
                event.advance(buffers.three_quarters());
            }
            suppress(ring, ring.driver, event, true);
            fence(SeqCst);
            let waits = || buffers.in_batch() || has_used(used, Relaxed);
            if answered == sent || !waits() {
                break;
            }
        }
        if woken && answered == before {
            spurious_wake_up();
        }
        woken = false;
        if answered == load.requests {
            return;
        }
        if sent == load.requests || sent - answered == load.depth {
            ring.wait_for_interrupt();
            woken = true;
        }
    }
}

pub(super) fn serve(ring: &Ring, most: u16) {
    let (mut avail, mut used) = (Position::new(ring), Position::new(ring));
    let available = |avail: Position, order| {
        let flags = ring.load16(ring.descriptors + 16 * avail.slot + 14, order);
        flags & (AVAIL | USED) == avail.flags_when_available()
    };
    loop {
        ring.wait_for_kick();
        let before = used;
        loop {
            suppress(ring, ring.device, avail, false);
            loop {
                let mut ids = Vec::new();
                while ids.len() < most.into() && available(avail, Acquire) {
                    let descriptor = usize::from(ring.descriptors + 16 * avail.slot);
                    let id = ring.memory.load(descriptor + 12, 2, Relaxed);
                    let len = ring.memory.load(descriptor + 8, 4, Relaxed);
                    claim(len != 0, || {
                        format!("the device sees buffer {id} without a length")
                    });
                    avail.advance(1);
                    ids.push(id);
                }
                if ids.is_empty() {
                    break;
                }
                give_back(ring, &mut used, &ids);
            }
            suppress(ring, ring.device, avail, true);
            fence(SeqCst);
            if !available(avail, Relaxed) {
                break;
            }
        }
        if used == before {
            spurious_wake_up();
        }
    }
}

/// Gives buffers back: each with its own used descriptor, or on an in-order ring all with one descriptor.
fn give_back(ring: &Ring, used: &mut Position, ids: &[u64]) {
    let old = *used;
    let (written, slots) = match ids {
        // There are at most as many ids as slots.
        [.., last] if ring.shape.in_order => (
            slice::from_ref(last),
            u16::try_from(ids.len()).unwrap_or(u16::MAX),
        ),
        _ => (ids, 1),
    };
    for &id in written {
        let descriptor = usize::from(ring.descriptors + 16 * used.slot);
        ring.memory.store(descriptor + 8, 4, 0, Relaxed);
        ring.memory.store(descriptor + 12, 2, id, Relaxed);
        ring.memory
            .store(descriptor + 14, 2, used.flags_when_used().into(), Release);
        used.advance(slots);
    }
    fence(SeqCst);
    if wanted(ring, ring.driver, old, *used) {
        ring.interrupt();
    }
}
