//! Exits to the VMM and their answers.
#![allow(unsafe_code, reason = "reads the counter of the host")]

use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Capability, Hypervisor, VmEntry, VmExit};

use crate::arm64::accesses::{Op, Player};
use testbed::{AREA, HOLE, await_that, plain};

/// Free memory after the list of accesses.
const FREE: u64 = AREA + 0x1000;

fn stores_of_every_width_leave_with_their_value<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let value = 0x8877_6655_4433_2211;
    let ops = [1, 2, 4, 8].map(|width| Op::Store(width, HOLE + 0x10, value));
    let write = |len: u8| VmExit::MmioWrite {
        address: HOLE + 0x10,
        len,
        data: value & u64::MAX >> (64 - 8 * u32::from(len)),
    };
    assert_eq!(player.play(&ops), [1, 2, 4, 8].map(write));
}

fn loads_get_their_answer<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let ops = [1, 2, 4, 8].map(|width| Op::Load(width, HOLE + 8));
    let exits = player.play_with(&ops, |_| VmEntry::Data(0xf8f7_f6f5_f4f3_f2f1));
    let read = |len| VmExit::MmioRead {
        address: HOLE + 8,
        len,
    };
    assert_eq!(exits, [1, 2, 4, 8].map(read));
    let results = [0, 1, 2, 3].map(|index| player.result(index));
    let expected = [0xf1, 0xf2f1, 0xf4f3_f2f1, 0xf8f7_f6f5_f4f3_f2f1];
    assert_eq!(results, expected);
}

fn calls_of_the_hypercall_page_reach_the_vmm_where_they_can<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let calls = [(0, 7), (0x510, u64::MAX), (0xffff, 1), (1 << 40, 2)];
    let ops = calls.map(|(number, argument)| Op::Call(number, argument));
    let mut answers = 100..;
    let exits = player.play_with(&ops, |_| VmEntry::Data(answers.next().unwrap()));
    let results = [0, 1, 2, 3].map(|index| player.result(index));
    if h.support(Capability::HypercallExit).is_yes() {
        let exit = |(number, argument)| VmExit::Hypercall { number, argument };
        assert_eq!(exits, calls.map(exit));
        assert_eq!(results, [100, 101, 102, 103]);
    } else {
        // The kernel answers all calls: it does not know them.
        assert_eq!(exits, []);
        assert_eq!(results, [u64::MAX; 4]);
    }
}

fn hypercall_instruction_is_answered_below_the_vmm<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    // PSCI_VERSION: at least 0.2.
    assert_eq!(player.play(&[Op::Hvc(0x8400_0000)]), []);
    assert!(player.result(0) >= 2, "{:#x}", player.result(0));
}

fn guest_reads_the_hosts_counter<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let before = counter();
    player.play(&[Op::Counter]);
    let after = counter();
    let guest = player.result(0);
    // Kernels before 6.4 leave a difference of about the time that a system call takes.
    let slack = frequency() / 1000;
    assert!(
        (before - slack..=after + slack).contains(&guest),
        "{before} {guest} {after}"
    );
}

fn kick_makes_a_running_guest_leave<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    player.write(&[Op::Spin(FREE)]);
    let kick = player.vcpu.kick_handle();
    let memory = vm.memory();
    let counted = || memory.read_obj::<u64>(GuestAddress(FREE)).unwrap();
    for _ in 0..3 {
        let before = counted();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                await_that("the guest to count", || counted() != before);
                kick.kick();
            });
            let exit = player.vcpu.run(VmEntry::Resume).unwrap();
            assert_eq!(exit, VmExit::Kicked);
        });
        assert_ne!(counted(), before);
    }
    // A kick of a vCPU that is outside the guest makes its next entry return.
    kick.kick();
    assert!(player.vcpu.is_kicked());
    assert_eq!(player.vcpu.run(VmEntry::Resume).unwrap(), VmExit::Kicked);
}

fn exits_are_counted<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let before = vm.measure().exit_counts();
    player.play(&[
        Op::Store(4, HOLE, 1),
        Op::Hvc(0x8400_0000),
        Op::Hvc(0x8400_0000),
    ]);
    let after = vm.measure().exit_counts();
    assert_eq!(after.heavy - before.heavy, 2, "the store and the end");
    let light = after.light.unwrap() - before.light.unwrap();
    assert!(light >= 2, "{light}");
}

fn counter() -> u64 {
    let now: u64;
    // SAFETY: reads a register that every process may read.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) now) };
    now
}

fn frequency() -> u64 {
    let hz: u64;
    // SAFETY: as above.
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz) };
    hz
}

testbed::on_kvm! {
    stores_of_every_width_leave_with_their_value;
    loads_get_their_answer;
    calls_of_the_hypercall_page_reach_the_vmm_where_they_can;
    hypercall_instruction_is_answered_below_the_vmm;
    guest_reads_the_hosts_counter;
    kick_makes_a_running_guest_leave;
    exits_are_counted;
}
