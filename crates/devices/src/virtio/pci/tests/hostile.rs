//! Drivers that break the rules.

use std::sync::atomic::AtomicBool;

use vm_memory::Bytes;

use super::*;

const LAYOUT: SplitLayout = SplitLayout::contiguous(0, 8);

/// A live device with doorbells and vectors.
fn live() -> Pc {
    let mut pc = Pc::new(VirtioConfig::default());
    pc.set_msix(true, false);
    pc.set_vector(1, false);
    start(&mut pc);
    pc
}

fn start(pc: &mut Pc) {
    pc.negotiate();
    assert!(pc.set_up(0, &LAYOUT, 1));
    pc.go_live();
}

#[test]
fn features_that_were_not_offered_are_not_accepted() {
    let mut pc = Pc::plain();
    pc.set(STATUS, 1, 3);
    for (select, half) in [(0, 1), (1, 1)] {
        pc.set(DRIVER_FEATURE_SELECT, 4, select);
        pc.set(DRIVER_FEATURE, 4, half);
    }
    pc.set(STATUS, 1, FEATURES_OK);
    assert_eq!(pc.get(STATUS, 1), 3);
}

#[test]
fn a_queue_that_is_enabled_cannot_be_moved_or_taken_back() {
    let mut pc = Pc::plain();
    pc.negotiate();
    assert!(pc.set_up(0, &LAYOUT, 0));
    for (field, len) in [(QUEUE_SIZE, 2), (QUEUE_ENABLE, 2), (32, 8), (44, 4)] {
        let before = pc.get(field, len);
        pc.set(field, len, 0);
        pc.set(field, len, 0x2000);
        assert_eq!(pc.get(field, len), before, "{field}");
    }
}

#[test]
fn accesses_of_any_width_anywhere_in_the_bar_are_survived() {
    let mut pc = live();
    for offset in (0..0x6100_u64).step_by(3) {
        for len in 1..=8 {
            // The accesses do not pass the end of the BAR.
            pc.store(BASE + offset, len, u64::MAX);
            pc.load(BASE + offset, len);
        }
    }
    assert_eq!(pc.errors(), 0);
    pc.root.reset();
    start(&mut pc);
}

#[test]
fn entries_that_change_while_their_vector_is_signalled_lose_no_message() {
    let mut pc = live();
    let done = AtomicBool::new(false);
    let wires = Arc::clone(&pc.wires);
    let memory = pc.memory.clone();
    let mut bell = pc.registry.bell();
    let mut sent = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2_000 {
                pc.set_vector(1, true);
                pc.set_vector(1, false);
            }
            done.store(true, Ordering::Release);
        });
        // Another vCPU makes chains available, one at a time, and the device answers each with the vector's message.
        let mut index = 0_u16;
        while !done.load(Ordering::Acquire) || sent.is_empty() {
            sent.extend(wires.take());
            let used: u16 = memory.read_obj(GuestAddress(LAYOUT.used + 2)).unwrap();
            if used == index {
                index = index.wrapping_add(1);
                memory
                    .write_obj(index, GuestAddress(LAYOUT.avail + 2))
                    .unwrap();
                bell.ring(IoEventAddress::Mmio(NOTIFY), &[0, 0]);
            }
            std::thread::yield_now();
        }
    });
    // No vector is masked any more, so no vector is pending.
    assert_eq!(pc.load(PENDING, 8), 0);
    sent.extend(wires.take());
    assert!(sent.iter().all(|sent| *sent == message(1)));
    assert_eq!(pc.errors(), 0);
}

#[test]
fn resets_while_the_doorbell_rings_neither_hang_nor_serve_on() {
    let mut pc = live();
    for _ in 0..200 {
        for _ in 0..5 {
            pc.store(NOTIFY, 2, 0);
        }
        pc.set(STATUS, 1, 0);
        assert_eq!(pc.get(STATUS, 1), 0);
        start(&mut pc);
    }
    assert_eq!(pc.errors(), 0);
}
