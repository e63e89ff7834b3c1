//! An interrupt that an emulated CPU delivers twice: the second time within the handler of the first, before its EOI
//! (docs/emulator-bugs.md). A vCPU that sends an answer for each interrupt must send only one answer for this one.

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{CODE, DONE_PORT, HANDLER, PARAMETERS, Program, offset, programs as guests};
use vmbell_hypervisor::{Hypervisor, Irqchip, VmConfig, VmExit};

use super::before_halt::{done, handle};
use testbed::{configured, programs};

/// A second copy of the program, in which the handler continues after it was interrupted.
const COPY: u64 = CODE.0 + 0x3000;
/// The code that enters the handler again.
const AGAIN: u64 = CODE.0 + 0x4100;
/// The code to which the first interrupt returns.
const DONE: u64 = CODE.0 + 0x4200;
/// Other vCPUs that have to answer: enough that none is the last, because the last would interrupt the first vCPU.
const PENDING: u64 = 9;

/// The length of a `jmp`.
const JUMP: u64 = 5;

fn word(name: usize) -> GuestAddress {
    GuestAddress(PARAMETERS.0 + name as u64)
}

/// Returns where the second interrupt can come: every instruction that the handler can run before its EOI, which is in
/// the program's own part. An instruction is left out if a `jmp` in its place would also overwrite a branch target.
fn places(program: Program) -> Vec<u64> {
    let decoded = |at: u64| {
        let code = &program.code[usize::try_from(at).unwrap()..];
        Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter()
    };
    let calls = |one: &Instruction| one.flow_control() == FlowControl::Call;
    let own_part = decoded(HANDLER).find(calls).unwrap().ip();
    let mut left = vec![HANDLER];
    let (mut found, mut targets) = (BTreeSet::new(), Vec::new());
    while let Some(at) = left.pop() {
        if !found.insert(at) {
            continue;
        }
        let one = decoded(at).next().unwrap();
        let flow = one.flow_control();
        let goes_on = !matches!(
            flow,
            FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::IndirectBranch
        );
        left.extend((goes_on && at != own_part).then_some(one.next_ip()));
        if matches!(
            flow,
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call
        ) {
            left.push(one.near_branch_target());
            targets.push(one.near_branch_target());
        }
    }
    let holds_target = |at| targets.iter().any(|to| (at + 1..at + JUMP).contains(to));
    found.into_iter().filter(|at| !holds_target(*at)).collect()
}

/// Returns how often the vCPU has answered, and how many answers are still missing, if its interrupt came a second time
/// right before the instruction at this offset; `None` if the handler did not reach the instruction.
fn answers<H: Hypervisor>(h: &H, program: Program, at: u64) -> Option<(u64, u64)> {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    let vm = configured(h, config);
    let memory = vm.memory();
    let write = |bytes: &[u8], at: u64| memory.write_slice(bytes, GuestAddress(at)).unwrap();
    write(program.code, CODE.0);
    write(program.code, COPY);
    write(&done(), DONE);
    let again = programs::taken_twice().code;
    write(again, AGAIN);
    let addresses = AGAIN + again.len() as u64 - 16;
    write(&(COPY + HANDLER).to_le_bytes(), addresses);
    write(&(COPY + at).to_le_bytes(), addresses + 8);
    let distance = u32::try_from(AGAIN - (CODE.0 + at + JUMP)).unwrap();
    let mut jump = vec![0xe9];
    jump.extend(distance.to_le_bytes());
    write(&jump, CODE.0 + at);

    memory.write_obj(PENDING, word(offset::PENDING)).unwrap();
    memory.write_obj(1_u64, word(offset::TARGET)).unwrap();
    let exit = handle(&*vm, (DONE, PARAMETERS.0), 1);
    let is_done = matches!(
        exit,
        Ok(VmExit::PioOut {
            port: DONE_PORT,
            ..
        })
    );
    assert!(is_done, "taken again at {at:#x}: {exit:?}");
    let read = |name| memory.read_obj::<u64>(word(name)).unwrap();
    let came = read(offset::STAMP) == 1;
    came.then(|| (read(offset::ANSWERED), read(offset::PENDING)))
}

fn vcpu_answers_an_interrupt_once_that_it_takes_twice<H: Hypervisor>(h: &H) {
    let program = guests::ipi_all();
    let mut came = 0;
    for at in places(program) {
        if let Some(answers) = answers(h, program, at) {
            assert_eq!(answers, (1, PENDING - 1), "taken again at {at:#x}");
            came += 1;
        }
    }
    assert!(came > 20, "{came}");
}

testbed::on_both! {
    vcpu_answers_an_interrupt_once_that_it_takes_twice;
}
