//! A jump that has replaced a store is undone if the guest has no stack for it or branches under it, and no ring is
//! lost or added.

use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Hypervisor, Irqchip, PatchMode, VmConfig, VmEntry};

use super::stores::{CODE, ROUNDS, begin, patched, ringing};
use testbed::jumps::{self, RBX, RCX, RSI, RSP};
use testbed::{HOLE, count, programs, run_to_done};

/// The offset of the store in `branch_past_store`.
const STORE: usize = 8;

fn a_store_whose_jump_was_taken_back_stays<H: Hypervisor>(h: &H) {
    for rounds in (100..400_u32).step_by(10) {
        let (vm, bell) = ringing(h, patched(Irqchip::None, PatchMode::Jmp));
        let code = programs::branch_past_store().code;
        let mut registers = [0; 16];
        registers[RCX] = rounds.into();
        registers[RBX] = HOLE;
        registers[RSP] = jumps::base(0) + jumps::FREE;
        let mut vcpu = begin(&vm, 0, code, registers);
        assert_eq!(run_to_done(&mut vcpu, |_| VmEntry::Resume), []);
        assert_eq!(count(bell.event()), u64::from(rounds / 2));
        let mut after = vec![0; code.len()];
        vm.memory()
            .read_slice(&mut after, GuestAddress(CODE))
            .unwrap();
        assert_eq!(code[STORE..STORE + 2], [0x88, 0x03]);
        assert_eq!(after, code, "{rounds} rounds");
    }
}

/// All vCPUs come to the jump, none has memory for the trampoline, and each continues at the store.
fn a_jump_needs_no_stack_of_several_vcpus<H: Hypervisor>(h: &H) {
    const VCPUS: u32 = 3;
    const RINGS: u32 = 500;
    for _ in 0..20 {
        let config = VmConfig {
            vcpus: VCPUS,
            ..patched(Irqchip::None, PatchMode::Jmp)
        };
        let (vm, bell) = ringing(h, config);
        let code = programs::branch_past_store().code;
        let mut registers = [0; 16];
        registers[RCX] = (2 * RINGS).into();
        registers[RBX] = HOLE;
        let mut vcpus: Vec<_> = (0..VCPUS)
            .map(|index| begin(&vm, index, code, registers))
            .collect();
        std::thread::scope(|scope| {
            for vcpu in &mut vcpus {
                scope.spawn(|| assert_eq!(run_to_done(vcpu, |_| VmEntry::Resume), []));
            }
        });
        assert_eq!(count(bell.event()), u64::from(VCPUS * RINGS));
    }
}

/// Two stores are under one jump: first the second store is hot, then both stores are, and then the second store is hot
/// again, without a stack.
fn a_jump_beside_another_needs_no_stack<H: Hypervisor>(h: &H) {
    let (vm, bell) = ringing(h, patched(Irqchip::None, PatchMode::Jmp));
    let code = programs::two_stores().code;
    let mut registers = [0; 16];
    registers[RBX] = HOLE;
    registers[RSI] = ROUNDS.into();
    registers[RSP] = jumps::base(0) + jumps::FREE;
    let mut vcpu = begin(&vm, 0, code, registers);
    assert_eq!(run_to_done(&mut vcpu, |_| VmEntry::Resume), []);
    assert_eq!(count(bell.event()), u64::from(4 * ROUNDS));
}

testbed::on_usermode! {
    a_jump_beside_another_needs_no_stack;
    a_jump_needs_no_stack_of_several_vcpus;
    a_store_whose_jump_was_taken_back_stays;
}
