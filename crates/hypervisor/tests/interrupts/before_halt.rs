//! An interrupt between a program's decision to halt and its `hlt`: its handler has to return to the instruction after
//! the `hlt`, or the program would sleep although its work is done.

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{
    CODE, DONE_PORT, HANDLER, Interrupts, PARAMETERS, Parameters, Program, STACK_TOP,
    programs as guests,
};
use vmbell_hypervisor::{EntryPoint, Hypervisor, Irqchip, Vm, VmConfig, VmEntry, VmExit};

use testbed::{configured, programs, step};

/// An address after all of a program's code.
const START: GuestAddress = GuestAddress(CODE.0 + 0x2000);
/// Memory of zeros, where a handler's device finds no reason for an interrupt.
const SCRATCH: u64 = CODE.0 + 0x3000;

/// Returns the offsets of `hlt` and of the instruction after it.
fn halt(program: Program) -> (u64, u64) {
    let mut halts = Decoder::new(64, program.code, DecoderOptions::NONE)
        .into_iter()
        .filter(|instruction| instruction.mnemonic() == Mnemonic::Hlt);
    let halt = halts.next().unwrap();
    assert!(
        halts.next().is_none(),
        "{} halts in one place",
        program.name
    );
    (halt.ip(), halt.next_ip())
}

/// Returns code that reports that the guest is done.
pub fn done() -> Vec<u8> {
    // mov edx, DONE_PORT; out dx, eax; jmp to itself
    let mut code = vec![0xba];
    code.extend(u32::from(DONE_PORT).to_le_bytes());
    code.extend([0xef, 0xeb, 0xfe]);
    code
}

/// Enters the handler of the program at [`CODE`] as if it had interrupted the instruction at `at`, with a device at
/// `device`, on a vCPU whose code takes its index to be `index`. Returns the vCPU's next exit.
pub fn handle(
    vm: &dyn Vm,
    (at, device): (u64, u64),
    index: u64,
) -> Result<VmExit, vmbell_hypervisor::Error> {
    let memory = vm.memory();
    memory
        .write_slice(programs::before_halt().code, START)
        .unwrap();
    let parameters = Parameters {
        count: at,
        address: device,
        value: CODE.0 + HANDLER,
        pause: 0,
    };
    parameters.write(memory, PARAMETERS).unwrap();
    let interrupts = Interrupts {
        xapic: true,
        ..Interrupts::default()
    };
    interrupts.write(memory, PARAMETERS).unwrap();
    let mut vcpu = vm.create_vcpu(0).unwrap();
    vcpu.set_entry_point(EntryPoint::Program {
        pc: START.0,
        sp: STACK_TOP.0,
        arguments: [PARAMETERS.0, index],
    })
    .unwrap();
    vcpu.set_interrupt_handler(CODE.0 + HANDLER).unwrap();
    step(&mut vcpu, VmEntry::Resume)
}

/// Checks where the program continues after an interrupt before its `hlt`: `Ok` if it continues after the `hlt`.
fn interrupted<H: Hypervisor>(h: &H, program: Program) -> Result<(), String> {
    let config = VmConfig {
        irqchip: Irqchip::Full,
        ..VmConfig::default()
    };
    let vm = configured(h, config);
    let memory = vm.memory();
    let (before, behind) = halt(program);
    memory.write_slice(program.code, CODE).unwrap();
    // int3
    memory
        .write_slice(&[0xcc], GuestAddress(CODE.0 + before))
        .unwrap();
    memory
        .write_slice(&done(), GuestAddress(CODE.0 + behind))
        .unwrap();
    match handle(&*vm, (CODE.0 + before, SCRATCH), 0) {
        Ok(VmExit::PioOut {
            port: DONE_PORT, ..
        }) => Ok(()),
        other => Err(format!("{}: {other:?}", program.name)),
    }
}

fn program_does_not_halt_after_an_interrupt_right_before_its_halt<H: Hypervisor>(h: &H) {
    for program in [
        guests::interrupt_halted(),
        guests::virtqueue_interrupt(),
        guests::edu_interrupt(),
    ] {
        assert_eq!(interrupted(h, program), Ok(()));
    }
}

testbed::on_both! {
    program_does_not_halt_after_an_interrupt_right_before_its_halt;
}
