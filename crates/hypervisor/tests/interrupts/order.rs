//! The order of interrupts: priorities, masks, nesting, the shadow of `sti`.

use vmbell_hypervisor::Hypervisor;

use testbed::configured;
use testbed::logged::{EOI, ICR, LEAVE, Logged, NEST, NOTHING, SELF_IPI, STAY_MASKED, TPR, whole};
use testbed::script::Op;
use testbed::taker::with_interrupts;

fn the_highest_comes_first<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI);
    for vector in [0x35, 0x91, 0x36, 0xf0, 0x20] {
        guest.raise(vector);
    }
    let expected = [0xf0, 0x91, 0x36, 0x35, 0x20].map(whole).concat();
    assert_eq!(guest.log(&[Op::Unmask]), expected);
}

fn nothing_comes_while_masked<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI);
    guest.raise(0x40);
    assert_eq!(
        guest.log(&[Op::Out(1, 1, 1), Op::In(1, 1), Op::Call(1, 1)]),
        NOTHING,
    );
    assert_eq!(guest.log(&[Op::UnmaskAndMask, Op::UnmaskAndMask]), NOTHING);
    assert_eq!(guest.log(&[Op::Unmask, Op::Mask]), whole(0x40));
    guest.raise(0x41);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), NOTHING);
    assert_eq!(guest.log(&[Op::Unmask]), whole(0x41));
}

fn a_halt_behind_its_unmask_misses_nothing<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI);
    for vector in 0x40..0x60 {
        guest.raise(vector);
        // If the interrupt were taken before the halt, the guest would sleep forever.
        assert_eq!(guest.log(&[Op::UnmaskAndHalt, Op::Mask]), whole(vector));
    }
    // The same with an interrupt that the vCPU sends to itself.
    for _ in 0..32 {
        let ops = [Op::WriteMsr(SELF_IPI, 0x77), Op::UnmaskAndHalt, Op::Mask];
        assert_eq!(guest.log(&ops), whole(0x77));
    }
}

fn the_task_priority_holds_back<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI);
    guest.play(&[Op::WriteMsr(TPR, 0x60), Op::Unmask]);
    for vector in [0x45, 0x61, 0x70] {
        guest.raise(vector);
    }
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x70));
    assert_eq!(guest.log(&[Op::WriteMsr(TPR, 0x50)]), whole(0x61));
    assert_eq!(guest.log(&[Op::WriteMsr(TPR, 0x4f)]), NOTHING);
    assert_eq!(guest.log(&[Op::WriteMsr(TPR, 0)]), whole(0x45));
}

fn a_handler_is_interrupted_by_higher_ones_only<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI | NEST);
    guest.raise(0x40);
    assert_eq!(guest.log(&[Op::Unmask]), whole(0x40));
    // Each handler unmasks: the highest interrupt comes first, and no other interrupts it before its EOI.
    for vector in [0x51, 0x52, 0x63, 0x74] {
        guest.raise(vector);
    }
    let expected = [0x74, 0x63, 0x52, 0x51].map(whole).concat();
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), expected);
    // Higher interrupts do nest: the VMM raises them while the handler runs.
    guest.set(EOI | NEST | LEAVE);
    guest.raise(0x30);
    guest.player.write(&[Op::Out(1, 1, 1)]);
    let vector = std::cell::Cell::new(0x40);
    let exits = testbed::run_to_done(&mut guest.player.vcpu, |exit| {
        if matches!(exit, vmbell_hypervisor::VmExit::PioIn { port: 0x79, .. }) {
            if vector.get() <= 0x60 {
                assert!(vm.signal_msi(testbed::taker::msi(0, vector.get())).unwrap());
            }
            vector.set(vector.get() + 0x10);
        }
        vmbell_hypervisor::VmEntry::Resume
    });
    assert_eq!(exits.len(), 5, "{exits:?}");
    // These interrupts come after the unmasking: between two handlers, but before the lower interrupt has ended.
    let log = guest.take_log();
    assert_eq!(log.len(), 8, "{log:x?}");
    for vector in [0x30, 0x40, 0x50, 0x60] {
        assert!(
            log.contains(&vector) && log.contains(&(vector | 0x100)),
            "{log:x?}"
        );
    }
}

fn a_return_with_if_clear_stays_masked<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI | STAY_MASKED);
    guest.raise(0x40);
    guest.raise(0x41);
    assert_eq!(guest.log(&[Op::Unmask]), whole(0x41));
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), NOTHING);
    assert_eq!(guest.log(&[Op::Unmask]), whole(0x40));
}

fn a_vcpu_interrupts_itself<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI);
    guest.play(&[Op::Unmask]);
    let itself = 1 << 18;
    for vector in [0x40_u8, 0x80, 0xff] {
        let number = u64::from(vector);
        assert_eq!(guest.log(&[Op::WriteMsr(SELF_IPI, number)]), whole(vector));
        assert_eq!(
            guest.log(&[Op::WriteMsr(ICR, itself | number)]),
            whole(vector)
        );
        assert_eq!(
            guest.log(&[Op::WriteMsr(ICR, number)]),
            whole(vector),
            "physical 0"
        );
    }
    assert_eq!(
        guest.log(&[Op::WriteMsr(ICR, 7 << 32 | 0x40)]),
        NOTHING,
        "no vcpu"
    );
    assert_eq!(
        guest.log(&[Op::WriteMsr(ICR, 3 << 18 | 0x40)]),
        NOTHING,
        "all but itself"
    );
}

testbed::on_both! {
    the_highest_comes_first;
    nothing_comes_while_masked;
    the_task_priority_holds_back;
    a_handler_is_interrupted_by_higher_ones_only;
    a_return_with_if_clear_stays_masked;
    a_vcpu_interrupts_itself;
}

/// On KVM this is the processor's guarantee. An emulated processor breaks it if its own interrupt comes there.
mod with_a_processor_that_keeps_the_shadow {
    use super::a_halt_behind_its_unmask_misses_nothing;

    testbed::on_usermode! {
        a_halt_behind_its_unmask_misses_nothing;
    }
}
