//! The end of an interrupt: by registers, by the page, and by the bit that saves a trap.

use vmbell_hypervisor::{Hypervisor, VmConfig, VmEntry, VmExit};

use testbed::logged::{
    APIC_BASE, EOI, EOI_TWICE, LEAVE, Logged, MSR_PV_EOI, NOTHING, PV_EOI, SVR, WORD, whole,
};
use testbed::script::Op;
use testbed::taker::with_interrupts;
use testbed::{AREA, HOLE, configured, step};

const PAGE: u64 = 0xfee0_0000;
const SWITCHED_ON: u64 = WORD | 1;

fn without_an_eoi_the_next_of_its_class_waits<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, 0);
    guest.play(&[Op::Unmask]);
    guest.raise(0x41);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x41));
    guest.raise(0x40);
    guest.raise(0x41);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), NOTHING);
    guest.raise(0x50);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x50));
    // The EOIs come from outside the handler: each ends the highest interrupt in service.
    assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), NOTHING);
    assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), whole(0x41));
    assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), whole(0x40));
}

fn an_eoi_too_many_does_nothing<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, EOI | EOI_TWICE);
    guest.play(&[Op::Unmask]);
    for vector in 0x40..0x50 {
        guest.raise(vector);
        assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), whole(vector));
    }
}

fn the_page_is_the_same_apic<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, 0);
    // Disable the APIC, and enable it again in xAPIC mode.
    let exits = guest.play(&[
        Op::WriteMsr(APIC_BASE, 0xfee0_0000),
        Op::WriteMsr(APIC_BASE, 0xfee0_0800),
        Op::Store(4, PAGE + 0xf0, 0x1ff),
        Op::Unmask,
        Op::Load(4, PAGE + 0xf0),
        Op::Load(4, PAGE + 0x20),
    ]);
    assert_eq!(exits, []);
    assert_eq!((guest.player.result(4), guest.player.result(5)), (0x1ff, 0));
    let own = 1 << 18;
    assert_eq!(
        guest.log(&[Op::Store(4, PAGE + 0x300, own | 0x45)]),
        whole(0x45)
    );
    // In service: of the eight words, 16 bytes apart, the third has vectors 64 to 95.
    guest.play(&[Op::Load(4, PAGE + 0x100 + 0x20)]);
    assert_eq!(guest.player.result(0), 1 << 5);
    assert_eq!(
        guest.log(&[Op::Store(4, PAGE + 0x300, own | 0x44)]),
        NOTHING
    );
    assert_eq!(guest.log(&[Op::Store(4, PAGE + 0xb0, 0)]), whole(0x44));
}

fn the_bit_saves_the_eoi<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, PV_EOI);
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON), Op::Unmask]);
    for round in 0..3 {
        for vector in 0x40..0x60 {
            guest.raise(vector);
            assert_eq!(
                guest.log(&[Op::Out(1, 1, 1)]),
                whole(vector),
                "round {round}"
            );
        }
    }
    guest.play(&[Op::ReadMsr(MSR_PV_EOI)]);
    assert_eq!(guest.player.result(0), SWITCHED_ON);
}

fn the_bit_is_not_set_while_another_waits<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, PV_EOI | EOI);
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON)]);
    guest.raise(0x40);
    guest.raise(0x90);
    // The lower interrupt comes right after the EOI of the higher one, so that was a real EOI.
    assert_eq!(
        guest.log(&[Op::Unmask]),
        [whole(0x90), whole(0x40)].concat()
    );
    guest.set(0);
    guest.raise(0x40);
    guest.raise(0x90);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x90));
    assert_eq!(guest.word(), 0);
}

fn an_exit_before_the_eoi_takes_the_bit_back<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, PV_EOI | EOI | LEAVE);
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON), Op::Unmask]);
    guest.raise(0x40);
    guest.player.write(&[Op::Out(1, 1, 1)]);
    let mut seen = Vec::new();
    let exits = testbed::run_to_done(&mut guest.player.vcpu, |exit| {
        if matches!(exit, VmExit::PioIn { .. }) {
            seen.push(
                vm_memory::Bytes::read_obj::<u32>(vm.memory(), vm_memory::GuestAddress(WORD))
                    .unwrap(),
            );
        }
        VmEntry::Resume
    });
    assert_eq!((exits.len(), seen), (2, vec![0]), "{exits:?}");
    assert_eq!(guest.take_log(), whole(0x40));
    // The real EOI worked: another interrupt of its class comes.
    guest.set(PV_EOI | EOI);
    guest.raise(0x40);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x40));
}

fn a_guest_that_sets_the_bit_itself_loses_only_its_own<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, PV_EOI | EOI);
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON), Op::Unmask]);
    for vector in [0x40, 0x50] {
        // The bit is set with nothing in service, and cleared by the handler instead of an EOI.
        guest.play(&[Op::Store(4, WORD, 1)]);
        guest.raise(vector);
        assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(vector));
        guest.play(&[Op::Store(4, WORD, u64::from(u32::MAX))]);
    }
    guest.play(&[
        Op::Store(4, WORD, 0),
        Op::WriteMsr(0x80b, 0),
        Op::WriteMsr(0x80b, 0),
    ]);
    guest.raise(0x41);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x41));
}

fn a_real_eoi_while_armed_ends_one_interrupt_not_two<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, 0);
    guest.play(&[Op::Unmask]);
    guest.raise(0x40);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x40));
    // 0x40 stays in service; 0x80 interrupts it with the bit set, and the register ends it.
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON)]);
    guest.set(EOI);
    guest.raise(0x80);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), whole(0x80));
    assert_eq!(guest.word(), 0);
    guest.raise(0x40);
    assert_eq!(
        guest.log(&[Op::Out(1, 1, 1)]),
        NOTHING,
        "0x40 is in service still"
    );
    assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), whole(0x40));
}

fn switched_off_while_armed_the_guest_writes_a_real_eoi<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, 0);
    guest.play(&[Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON), Op::Unmask]);
    guest.raise(0x40);
    let log = guest.log(&[Op::Out(1, 1, 1), Op::WriteMsr(MSR_PV_EOI, 0)]);
    assert_eq!(log, whole(0x40));
    guest.play(&[Op::Store(4, WORD, 0)]);
    guest.raise(0x40);
    assert_eq!(guest.log(&[Op::Out(1, 1, 1)]), NOTHING);
    assert_eq!(guest.log(&[Op::WriteMsr(0x80b, 0)]), whole(0x40));
    // Move the bit to another word and back, with the interrupt in service.
    let other = AREA + 0x7000;
    guest.play(&[
        Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON),
        Op::WriteMsr(MSR_PV_EOI, other | 1),
        Op::WriteMsr(0x80b, 0),
    ]);
    guest.set(PV_EOI);
    guest.raise(0x41);
    guest.play(&[Op::Out(1, 1, 1), Op::Load(4, other)]);
    assert!(guest.player.result(1) <= 1);
}

/// Runs a script of one access that ends the guest with a fault.
fn dies<H: Hypervisor>(h: &H, config: VmConfig, op: Op) {
    let vm = configured(h, config);
    let guest = &mut Logged::new(&vm, EOI).player;
    guest.write(&[op]);
    match step(&mut guest.vcpu, VmEntry::Resume).unwrap() {
        VmExit::Fault(fault) => assert_eq!(fault.exception, "#GP", "{op:x?}: {fault}"),
        exit => panic!("{op:x?}: {exit:x?}"),
    }
}

fn a_register_that_refuses_is_a_fault<H: Hypervisor>(h: &H) {
    let end = AREA - 0x10_0000 + VmConfig::default().ram_size;
    for value in [WORD | 3, WORD | 2, HOLE | 1, end | 1, 1, 1 << 63 | 1] {
        dies(h, with_interrupts(1), Op::WriteMsr(MSR_PV_EOI, value));
    }
    let hidden = VmConfig {
        pv_eoi: false,
        ..with_interrupts(1)
    };
    for op in [
        Op::WriteMsr(MSR_PV_EOI, SWITCHED_ON),
        Op::WriteMsr(MSR_PV_EOI, 0),
        Op::ReadMsr(MSR_PV_EOI),
    ] {
        dies(h, hidden.clone(), op);
    }
    for op in [
        Op::WriteMsr(0x802, 0),
        Op::WriteMsr(SVR, 1 << 32),
        Op::ReadMsr(0x80b),
        Op::ReadMsr(0x8ff),
        Op::WriteMsr(APIC_BASE, 0xfee0_0400),
    ] {
        dies(h, with_interrupts(1), op);
    }
}

/// The manual's rule; KVM accepts any value.
fn an_eoi_that_is_not_0_is_a_fault<H: Hypervisor>(h: &H) {
    dies(h, with_interrupts(1), Op::WriteMsr(0x80b, 1));
}

fn the_last_word_of_ram_is_good<H: Hypervisor>(h: &H) {
    let vm = configured(h, with_interrupts(1));
    let mut guest = Logged::new(&vm, 0);
    let last = AREA - 0x10_0000 + VmConfig::default().ram_size - 4;
    // While PV EOI is off, any aligned address is accepted and reads back.
    guest.play(&[
        Op::WriteMsr(MSR_PV_EOI, last | 1),
        Op::ReadMsr(MSR_PV_EOI),
        Op::WriteMsr(MSR_PV_EOI, HOLE),
        Op::ReadMsr(MSR_PV_EOI),
    ]);
    assert_eq!(
        (guest.player.result(1), guest.player.result(3)),
        (last | 1, HOLE)
    );
}

testbed::on_both! {
    without_an_eoi_the_next_of_its_class_waits;
    an_eoi_too_many_does_nothing;
    the_page_is_the_same_apic;
    the_bit_is_not_set_while_another_waits;
    an_exit_before_the_eoi_takes_the_bit_back;
    a_guest_that_sets_the_bit_itself_loses_only_its_own;
    a_real_eoi_while_armed_ends_one_interrupt_not_two;
    switched_off_while_armed_the_guest_writes_a_real_eoi;
    a_register_that_refuses_is_a_fault;
    the_last_word_of_ram_is_good;
}

/// On KVM any exit inside the handler, for example the first access to a page, clears the bit.
mod with_no_exits_of_the_hosts {
    use super::{an_eoi_that_is_not_0_is_a_fault, the_bit_saves_the_eoi};

    testbed::on_usermode! {
        the_bit_saves_the_eoi;
        an_eoi_that_is_not_0_is_a_fault;
    }
}
