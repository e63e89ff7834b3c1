//! Both sides of a split ring as specified in virtio 1.3, 2.7.

use std::slice;

use super::buffers::Buffers;
use super::{Load, Ring, need_event};
use crate::graph::Order::{Acquire, Relaxed, Release, SeqCst};
use crate::shared::{claim, fence, spurious_wake_up};

impl Ring {
    fn avail_flags(&self) -> u16 {
        self.driver
    }
    fn avail_idx(&self) -> u16 {
        self.driver + 2
    }
    fn avail_ring(&self, index: u16) -> u16 {
        self.driver + 4 + 2 * (index % self.shape.size)
    }
    fn used_event(&self) -> u16 {
        self.driver + 4 + 2 * self.shape.size
    }
    fn used_flags(&self) -> u16 {
        self.device
    }
    fn used_idx(&self) -> u16 {
        self.device + 2
    }
    fn used_ring(&self, index: u16) -> u16 {
        self.device + 4 + 8 * (index % self.shape.size)
    }
    fn avail_event(&self) -> u16 {
        self.device + 4 + 8 * self.shape.size
    }
}

pub(super) fn drive(ring: &Ring, load: Load) {
    let event_idx = ring.shape.event_idx;
    let mut buffers = Buffers::new(ring.shape);
    let (mut avail, mut used) = (ring.shape.start, ring.shape.start);
    let mut asked = avail;
    let (mut sent, mut answered) = (0, 0);
    let mut woken = false;
    loop {
        while sent < load.requests && sent - answered < load.depth {
            let Some(id) = buffers.send() else { break };
            let descriptor = usize::from(ring.descriptors + 16 * id);
            ring.memory.store(descriptor, 8, 0x800, Relaxed);
            ring.memory.store(descriptor + 8, 4, 8, Relaxed);
            ring.memory.store(descriptor + 12, 2, 2, Relaxed);
            ring.store16(ring.avail_ring(avail), id, Relaxed);
            avail = avail.wrapping_add(1);
            ring.store16(ring.avail_idx(), avail, Release);
            sent += 1;
            if !load.batch {
                kick(ring, avail, &mut asked);
            }
        }
        if load.batch && asked != avail {
            kick(ring, avail, &mut asked);
        }
        let before = answered;
        loop {
            if !event_idx && !load.armed {
                ring.store16(ring.avail_flags(), 1, Relaxed);
            }
            let budget = answered.saturating_add(load.budget);
            while answered < budget {
                let id = || {
                    let is_used = ring.load16(ring.used_idx(), Acquire) != used;
                    is_used.then(|| ring.load32(ring.used_ring(used), Relaxed))
                };
                if !buffers.take(id) {
                    break;
                }
                answered += 1;
                used = used.wrapping_add(1);
            }
            let late = if load.late {
                buffers.three_quarters()
            } else {
                0
            };
            if event_idx {
                ring.store16(ring.used_event(), used.wrapping_add(late), Relaxed);
            } else {
                ring.store16(ring.avail_flags(), 0, Relaxed);
            }
            fence(SeqCst);
            let waiting = ring.load16(ring.used_idx(), Relaxed).wrapping_sub(used);
            if waiting <= late {
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

/// Notifies the device of the buffers made available since the last time, if the device wants that.
fn kick(ring: &Ring, avail: u16, asked: &mut u16) {
    fence(SeqCst);
    let wanted = if ring.shape.event_idx {
        need_event(ring.load16(ring.avail_event(), Relaxed), avail, *asked)
    } else {
        ring.load16(ring.used_flags(), Relaxed) & 1 == 0
    };
    *asked = avail;
    if wanted {
        ring.kick();
    }
}

pub(super) fn serve(ring: &Ring, most: u16) {
    let event_idx = ring.shape.event_idx;
    let (mut avail, mut used) = (ring.shape.start, ring.shape.start);
    loop {
        ring.wait_for_kick();
        let before = used;
        loop {
            if !event_idx {
                ring.store16(ring.used_flags(), 1, Relaxed);
            }
            loop {
                let mut ids = Vec::new();
                while ids.len() < most.into() && ring.load16(ring.avail_idx(), Acquire) != avail {
                    let id = ring.load16(ring.avail_ring(avail), Relaxed);
                    claim(id < ring.shape.size, || {
                        format!("the driver makes chain {id} available, which does not exist")
                    });
                    let descriptor = usize::from(ring.descriptors + 16 * (id % ring.shape.size));
                    let len = ring.memory.load(descriptor + 8, 4, Relaxed);
                    claim(len != 0, || {
                        format!("the device sees descriptor {id} without a length")
                    });
                    avail = avail.wrapping_add(1);
                    ids.push(id);
                }
                if ids.is_empty() {
                    break;
                }
                give_back(ring, &mut used, &ids);
            }
            if event_idx {
                ring.store16(ring.avail_event(), avail, Relaxed);
            } else {
                ring.store16(ring.used_flags(), 0, Relaxed);
            }
            fence(SeqCst);
            if ring.load16(ring.avail_idx(), Relaxed) == avail {
                break;
            }
        }
        if used == before {
            spurious_wake_up();
        }
    }
}

/// Gives chains back: each with its own used element, or on an in-order ring all with one. The index counts all chains.
fn give_back(ring: &Ring, used: &mut u16, ids: &[u16]) {
    let old = *used;
    let written = match ids {
        [.., last] if ring.shape.in_order => slice::from_ref(last),
        _ => ids,
    };
    let mut at = old;
    for &id in written {
        ring.store32(ring.used_ring(at), id.into(), Relaxed);
        ring.store32(ring.used_ring(at) + 4, 0, Relaxed);
        at = at.wrapping_add(1);
    }
    // There are at most as many ids as descriptors.
    *used = old.wrapping_add(u16::try_from(ids.len()).unwrap_or(u16::MAX));
    ring.store16(ring.used_idx(), *used, Release);
    fence(SeqCst);
    let wanted = if ring.shape.event_idx {
        need_event(ring.load16(ring.used_event(), Relaxed), *used, old)
    } else {
        ring.load16(ring.avail_flags(), Relaxed) & 1 == 0
    };
    if wanted {
        ring.interrupt();
    }
}
