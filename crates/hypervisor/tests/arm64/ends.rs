//! How a guest ends: a fault, with the name of its exception, or a request to the firmware.

use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Error, Fault, Hypervisor, VmEntry, VmExit};

use crate::arm64::accesses::{Op, Player};
use testbed::{AREA, HOLE, fault, plain, step};

const PSCI_SYSTEM_OFF: u64 = 0x8400_0008;
const PSCI_SYSTEM_RESET: u64 = 0x8400_0009;

fn fault_of<H: Hypervisor>(h: &H, ops: &[Op]) -> Fault {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    player.write(ops);
    let fault = fault(&mut player.vcpu);
    let again = player.vcpu.run(VmEntry::Resume);
    assert!(matches!(again, Err(Error::Faulted)), "{again:?}");
    fault
}

fn load_from_an_unmapped_address_is_a_data_abort<H: Hypervisor>(h: &H) {
    let fault = fault_of(h, &[Op::Load(4, 0x1_2345_6780)]);
    assert_eq!(fault.exception, "Data abort");
    assert_eq!(fault.address, Some(0x1_2345_6780));
    // ldr w24, [x23]
    assert_eq!(fault.bytes, 0xb940_02f8_u32.to_le_bytes());
}

fn jump_to_a_hole_is_an_instruction_abort<H: Hypervisor>(h: &H) {
    let fault = fault_of(h, &[Op::Jump(HOLE)]);
    assert_eq!(fault.exception, "Instruction abort");
    assert_eq!((fault.pc, fault.address), (Some(HOLE), Some(HOLE)));
}

fn jump_to_an_odd_address_is_a_fault_of_the_pc<H: Hypervisor>(h: &H) {
    let fault = fault_of(h, &[Op::Jump(AREA + 2)]);
    assert_eq!(fault.exception, "PC alignment");
    assert_eq!(fault.pc, Some(AREA + 2));
}

fn invalid_instruction_is_told_with_its_bytes<H: Hypervisor>(h: &H) {
    let vm = plain(h);
    let mut player = Player::new(&vm);
    let place = AREA + 0x1000;
    // udf #7
    vm.memory().write_obj(7_u32, GuestAddress(place)).unwrap();
    player.write(&[Op::Jump(place)]);
    let fault = fault(&mut player.vcpu);
    assert_eq!((fault.exception, fault.pc), ("Unknown", Some(place)));
    assert_eq!((fault.bytes, fault.address), (vec![7, 0, 0, 0], None));
}

fn pair_stored_to_a_hole_is_a_fault_of_the_guest<H: Hypervisor>(h: &H) {
    let fault = fault_of(h, &[Op::Store(16, HOLE, 1)]);
    assert_eq!((fault.exception, fault.address), ("Data abort", Some(HOLE)));
    assert_eq!(fault.reason, "kvm cannot emulate the instruction");
}

fn guest_can_switch_itself_off<H: Hypervisor>(h: &H) {
    for (function, expected) in [
        (PSCI_SYSTEM_OFF, VmExit::Shutdown),
        (PSCI_SYSTEM_RESET, VmExit::Reset),
    ] {
        let vm = plain(h);
        let mut player = Player::new(&vm);
        player.write(&[Op::Hvc(function)]);
        let exit = step(&mut player.vcpu, VmEntry::Resume).unwrap();
        assert_eq!(exit, expected);
        let again = player.vcpu.run(VmEntry::Resume);
        assert!(matches!(again, Err(Error::Faulted)), "{again:?}");
    }
}

testbed::on_kvm! {
    load_from_an_unmapped_address_is_a_data_abort;
    jump_to_a_hole_is_an_instruction_abort;
    jump_to_an_odd_address_is_a_fault_of_the_pc;
    invalid_instruction_is_told_with_its_bytes;
    pair_stored_to_a_hole_is_a_fault_of_the_guest;
    guest_can_switch_itself_off;
}
