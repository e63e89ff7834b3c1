//! The PV EOI bit while it is set: what clears it, and which interrupt gets it next.
//!
//! The guest interrupts itself and reads its word with loads. On the usermode backend only the accesses that a script
//! lists make it leave; on KVM the host's own interrupts also do, and clear the bit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use vmbell_hypervisor::{Hypervisor, Vm};

use testbed::logged::{EOI, Logged, MSR_PV_EOI, NOTHING, PV_EOI, SELF_IPI, TPR, WORD, whole};
use testbed::script::Op;
use testbed::taker::{msi, with_interrupts};
use testbed::{AREA, HANG, configured};

const SWITCHED_ON: u64 = WORD | 1;
const ELSEWHERE: u64 = AREA + 0x7000;
const END: Op = Op::WriteMsr(0x80b, 0);

/// A handler that does no EOI and leaves the bit unchanged.
const NO_EOI: u64 = 0;

/// Sets what handlers do from here on; no exit.
fn handler(options: u64) -> Op {
    Op::Store(8, WORD - 8, options)
}

fn interrupt(vector: u64) -> Op {
    Op::WriteMsr(SELF_IPI, vector)
}

fn look(word: u64) -> Op {
    Op::Load(4, word)
}

/// Returns a guest that takes interrupts and has PV EOI switched on.
fn switched_on(vm: &Arc<dyn Vm>) -> Logged<'_> {
    let mut guest = Logged::new(vm, NO_EOI);
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON), Op::Unmask]);
    guest
}

fn a_nested_interrupt_has_the_bit_and_the_outer_one_needs_the_register<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = switched_on(&vm);
    let log = guest.log(&[
        interrupt(0x40),
        look(WORD),
        handler(PV_EOI),
        interrupt(0x80),
        look(WORD),
        // The bit has ended 0x80, so this EOI is for 0x40, and 0x41 can come.
        END,
        interrupt(0x41),
    ]);
    assert_eq!(log, [0x40, 0x80, 0x41].map(whole).concat());
    assert_eq!((guest.player.result(1), guest.player.result(4)), (1, 0));
}

fn a_bit_cleared_twice_ends_one_interrupt<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = switched_on(&vm);
    let log = guest.log(&[
        interrupt(0x40),
        handler(PV_EOI),
        interrupt(0x80),
        Op::Store(4, WORD, 0),
        interrupt(0x90),
        Op::Store(4, WORD, 0),
        // 0x40 is still in service.
        interrupt(0x41),
    ]);
    assert_eq!(log, [0x40, 0x80, 0x90].map(whole).concat());
    assert_eq!(guest.log(&[END]), whole(0x41));
}

fn a_word_that_moves_while_armed_leaves_no_bit_behind<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = switched_on(&vm);
    let log = guest.log(&[
        interrupt(0x40),
        look(WORD),
        Op::WriteMsr(MSR_PV_EOI, ELSEWHERE | 1),
        look(WORD),
        END,
        interrupt(0x41),
        look(ELSEWHERE),
        look(WORD),
    ]);
    assert_eq!(log, [0x40, 0x41].map(whole).concat());
    let words = [1, 3, 6, 7].map(|index| guest.player.result(index));
    assert_eq!(words, [1, 0, 1, 0]);
}

fn a_task_priority_that_changes_while_armed_loses_no_eoi<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = switched_on(&vm);
    let log = guest.log(&[
        interrupt(0x60),
        look(WORD),
        Op::WriteMsr(TPR, 0x70),
        // Both interrupts hold 0x6f back; a pending interrupt keeps the bit clear.
        interrupt(0x6f),
        look(WORD),
        END,
    ]);
    assert_eq!(log, whole(0x60));
    assert_eq!((guest.player.result(1), guest.player.result(4)), (1, 0));
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), NOTHING);
    assert_eq!(guest.log(&[Op::WriteMsr(TPR, 0)]), whole(0x6f));
}

fn a_halt_with_an_eoi_owed_is_ended_by_its_own_class<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = switched_on(&vm);
    // Set before the first interrupt, which can come before the guest's first instruction. A handler without an EOI
    // would block all later interrupts of its class.
    guest.set(PV_EOI | EOI);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Sends until one interrupt wakes the guest: one that is taken before the halt does not wake it. The
            // interrupt whose EOI is owed must not hold back any of them.
            let begun = Instant::now();
            while !done.load(Relaxed) && begun.elapsed() < HANG {
                std::thread::sleep(Duration::from_millis(20));
                let _ = vm.signal_msi(msi(0, 0x40)).unwrap();
            }
        });
        let log = guest.log(&[interrupt(0x41), Op::UnmaskAndHalt]);
        done.store(true, Relaxed);
        let (owed, others): (Vec<_>, Vec<_>) =
            log.chunks(2).partition(|taken| *taken == whole(0x41));
        assert_eq!(owed.len(), 1, "{log:x?}");
        assert!(others.iter().all(|taken| *taken == whole(0x40)), "{log:x?}");
        assert!(log.ends_with(&whole(0x40)), "{log:x?}");
    });
}

testbed::on_both! {
    a_halt_with_an_eoi_owed_is_ended_by_its_own_class;
}

mod where_exits_are_the_guests_only {
    use super::*;

    testbed::on_usermode! {
        a_nested_interrupt_has_the_bit_and_the_outer_one_needs_the_register;
        a_bit_cleared_twice_ends_one_interrupt;
        a_word_that_moves_while_armed_leaves_no_bit_behind;
        a_task_priority_that_changes_while_armed_loses_no_eoi;
    }
}
