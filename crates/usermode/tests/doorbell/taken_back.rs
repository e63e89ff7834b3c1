//! A jump that has replaced a store is undone if the guest has no stack for it or branches under it, and no ring is
//! lost or added.

use iced_x86::code_asm::{CodeAssembler, al, byte_ptr, ecx, esp, qword_ptr, r8, r9, rbx};
use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Hypervisor, Irqchip, PatchMode, VmConfig, VmEntry};

use super::stores::{CODE, ROUNDS, begin, patched, ringing, say_done};
use testbed::jumps::{self, RBX, RSP};
use testbed::{HOLE, count, run_to_done};

/// The code of the guests below: `mov [rbx], al` after a test that branches past it every second time, so that the
/// branch ends under the jump.
fn branching(rounds: u32) -> Vec<u8> {
    let mut code = CodeAssembler::new(64).unwrap();
    let [mut again, mut behind] = [(); 2].map(|()| code.create_label());
    code.mov(ecx, rounds).unwrap();
    code.set_label(&mut again).unwrap();
    code.test(ecx, 1).unwrap();
    code.jne(behind).unwrap();
    code.mov(byte_ptr(rbx), al).unwrap();
    code.set_label(&mut behind).unwrap();
    code.dec(ecx).unwrap();
    code.jne(again).unwrap();
    say_done(&mut code);
    code.assemble(CODE).unwrap()
}

/// The offset of the store in this code.
const STORE: usize = 13;

fn a_store_whose_jump_was_taken_back_stays<H: Hypervisor>(h: &H) {
    for rounds in (100..400).step_by(10) {
        let (vm, bell) = ringing(h, patched(Irqchip::None, PatchMode::Jmp));
        let code = branching(rounds);
        let mut registers = [0; 16];
        registers[RBX] = HOLE;
        registers[RSP] = jumps::base(0) + jumps::FREE;
        let mut vcpu = begin(&vm, 0, &code, registers);
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
        let code = branching(2 * RINGS);
        let mut registers = [0; 16];
        registers[RBX] = HOLE;
        let mut vcpus: Vec<_> = (0..VCPUS)
            .map(|index| begin(&vm, index, &code, registers))
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
    let mut code = CodeAssembler::new(64).unwrap();
    let [mut first, mut second, mut left] = [(); 3].map(|()| code.create_label());
    let [mut both, mut no_stack, mut end] = [(); 3].map(|()| code.create_label());
    let begin_at = |code: &mut CodeAssembler, store, next| {
        code.lea(r8, qword_ptr(store)).unwrap();
        code.lea(r9, qword_ptr(next)).unwrap();
        code.mov(ecx, ROUNDS).unwrap();
        code.jmp(r8).unwrap();
    };
    begin_at(&mut code, second, both);
    code.set_label(&mut first).unwrap();
    code.mov(byte_ptr(rbx), al).unwrap();
    code.set_label(&mut second).unwrap();
    code.mov(byte_ptr(rbx), al).unwrap();
    code.dec(ecx).unwrap();
    code.je(left).unwrap();
    code.jmp(r8).unwrap();
    code.set_label(&mut left).unwrap();
    code.jmp(r9).unwrap();
    code.set_label(&mut both).unwrap();
    begin_at(&mut code, first, no_stack);
    code.set_label(&mut no_stack).unwrap();
    code.xor(esp, esp).unwrap();
    begin_at(&mut code, second, end);
    code.set_label(&mut end).unwrap();
    say_done(&mut code);
    let code = code.assemble(CODE).unwrap();
    let mut registers = [0; 16];
    registers[RBX] = HOLE;
    registers[RSP] = jumps::base(0) + jumps::FREE;
    let mut vcpu = begin(&vm, 0, &code, registers);
    assert_eq!(run_to_done(&mut vcpu, |_| VmEntry::Resume), []);
    assert_eq!(count(bell.event()), u64::from(4 * ROUNDS));
}

testbed::on_usermode! {
    a_jump_beside_another_needs_no_stack;
    a_jump_needs_no_stack_of_several_vcpus;
    a_store_whose_jump_was_taken_back_stays;
}
