//! A store that a jump has replaced does what it did before: it rings with any operands, and elsewhere it stores to
//! memory, leaves the guest or reaches the local APIC.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rustix::fs::{MemfdFlags, memfd_create};
use stub::trampoline::JMP;
use vm_memory::{Bytes, GuestAddress};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell_hypervisor::{
    DeviceMemory, Doorbell, Hypervisor, Irqchip, PatchMode, Vcpu, Vm, VmConfig, VmEntry, VmExit,
};

use testbed::jumps::{self, Jump, RSP};
use testbed::{AREA, HOLE, configured, count, event, programs, run_to_done};

pub const CODE: u64 = AREA + 0x10_0000;
const SAVED: u64 = AREA + 0x11_0000;
/// A place within reach of the code.
const NEAR: u64 = 0x5000_0000;
/// More than enough for the site to be patched.
pub const ROUNDS: u32 = 40;

/// Returns the general register with this number, of 2 to the power of `width` bytes.
fn general(width: usize, number: usize) -> Register {
    let first = [Register::AL, Register::AX, Register::EAX, Register::RAX];
    match (width, u32::try_from(number).unwrap()) {
        (0, low @ 4..) => Register::SPL + (low - 4),
        (width, number) => first[width] + number,
    }
}

#[derive(Clone, Copy, Debug)]
enum Source {
    General(usize),
    High(usize),
    Immediate(u32),
}

/// How a store forms its address.
#[derive(Clone, Copy, Debug)]
enum Base {
    General(usize),
    /// A 32-bit register.
    Short(usize),
    InstructionPointer,
    None,
}

/// A store, and the register values before it.
#[derive(Clone, Debug)]
struct Store {
    /// The width in bytes, as a base-2 logarithm.
    width: usize,
    source: Source,
    base: Base,
    index: Option<(usize, u32)>,
    displacement: i32,
    registers: [u64; 16],
}

impl Store {
    fn any() -> impl Strategy<Value = Self> {
        let source = prop_oneof![
            4 => (0..16_usize).prop_map(Source::General),
            1 => (0..4_usize).prop_map(Source::High),
            2 => any::<u32>().prop_map(Source::Immediate),
        ];
        let base = prop_oneof![
            8 => (0..16_usize).prop_map(Base::General),
            2 => (0..16_usize).prop_map(Base::Short),
            1 => Just(Base::InstructionPointer),
            1 => Just(Base::None),
        ];
        let displacement = prop_oneof![Just(0), -128..128_i32, any::<i32>()];
        let index = prop::option::of((0..16_usize, 0..4_u32));
        let fields = (0..4_usize, source, base, index, displacement);
        (fields, any::<[u64; 16]>()).prop_map(|(fields, mut registers)| {
            let (width, source, base, index, displacement) = fields;
            let mut index = index.filter(|(index, _)| *index != RSP);
            registers[RSP] = jumps::base(0) + jumps::FREE;
            match base {
                Base::General(base) | Base::Short(base) => {
                    index = index.filter(|(index, _)| *index != base);
                    let indexed = index.map_or(0, |(index, scale)| registers[index] << scale);
                    let rest = indexed.wrapping_add_signed(displacement.into());
                    if base != RSP {
                        registers[base] = HOLE.wrapping_sub(rest);
                    }
                }
                Base::InstructionPointer | Base::None => index = None,
            }
            Self {
                width,
                source,
                base,
                index,
                displacement,
                registers,
            }
        })
    }

    /// Returns `None` if there is no such instruction: a high byte together with an extended register, or a store to
    /// the stack.
    fn instruction(&self) -> Option<Instruction> {
        let near = NEAR.cast_signed();
        let (base, width, displacement) = match self.base {
            Base::General(RSP) | Base::Short(RSP) => return None,
            Base::General(base) => (general(3, base), 3, self.displacement.into()),
            Base::Short(base) => (general(2, base), 2, self.displacement.into()),
            Base::InstructionPointer => (Register::RIP, 3, near),
            Base::None => (Register::None, 3, near),
        };
        let operand = MemoryOperand::new(
            base,
            self.index
                .map_or(Register::None, |(index, _)| general(width, index)),
            self.index.map_or(1, |(_, scale)| 1 << scale),
            displacement,
            1 << width,
            false,
            Register::None,
        );
        let instruction = match self.source {
            Source::General(number) => {
                let code = [
                    Code::Mov_rm8_r8,
                    Code::Mov_rm16_r16,
                    Code::Mov_rm32_r32,
                    Code::Mov_rm64_r64,
                ];
                let source = general(self.width, number);
                Instruction::with2(code[self.width], operand, source)
            }
            Source::High(number) => {
                let high = [Register::AH, Register::CH, Register::DH, Register::BH];
                let is_extended = |number: usize| number >= 8;
                let extended = matches!(self.base, Base::General(base) | Base::Short(base) if is_extended(base))
                    || self.index.is_some_and(|(index, _)| is_extended(index));
                if self.width != 0 || extended {
                    return None;
                }
                Instruction::with2(Code::Mov_rm8_r8, operand, high[number])
            }
            Source::Immediate(value) => {
                let code = [
                    Code::Mov_rm8_imm8,
                    Code::Mov_rm16_imm16,
                    Code::Mov_rm32_imm32,
                    Code::Mov_rm64_imm32,
                ];
                let mask = [0xff, 0xffff, u32::MAX, u32::MAX][self.width];
                match self.width {
                    3 => Instruction::with2(code[3], operand, value.cast_signed()),
                    width => Instruction::with2(code[width], operand, value & mask),
                }
            }
        };
        Some(instruction.unwrap())
    }

    fn value(&self) -> u64 {
        let value = match self.source {
            Source::General(number) => self.registers[number],
            Source::High(number) => self.registers[number] >> 8,
            Source::Immediate(value) => i64::from(value.cast_signed()).cast_unsigned(),
        };
        value & (u64::MAX >> (64 - (8 << self.width)))
    }
}

/// Executes `store` 40 times, and saves all registers.
fn program(store: &Instruction) -> Vec<u8> {
    let mut encoder = Encoder::new(64);
    let len = encoder.encode(store, CODE).unwrap();
    let mut code = programs::hot_store().code.to_vec();
    code[..len].copy_from_slice(&encoder.take_buffer());
    code.extend(ROUNDS.to_le_bytes());
    code
}

pub fn patched(irqchip: Irqchip, patch: PatchMode) -> VmConfig {
    VmConfig {
        patch,
        irqchip,
        ..VmConfig::default()
    }
}

/// Loads `code` and returns a vCPU that begins there with these registers.
pub fn begin(vm: &Arc<dyn Vm>, index: u32, code: &[u8], registers: [u64; 16]) -> Box<dyn Vcpu> {
    vm.memory().write_slice(code, GuestAddress(CODE)).unwrap();
    let target = CODE;
    jumps::take(vm, index, &[Jump { registers, target }], 0)
}

/// Makes a guest in which stores of any width to [`HOLE`] ring.
pub fn ringing<H: Hypervisor>(h: &H, config: VmConfig) -> (Arc<dyn Vm>, Doorbell) {
    let vm = configured(h, config);
    let (place, any) = (IoEventAddress::Mmio(HOLE), Datamatch::AnyLength);
    let bell = vm
        .register_ioevent(&event(), place, any, Sharing::Exclusive)
        .unwrap();
    (vm, bell)
}

fn a_replaced_store_rings_with_any_operands<H: Hypervisor>(h: &H) {
    let check = |store: Store| {
        let Some(instruction) = store.instruction() else {
            return Err(TestCaseError::reject("no such instruction"));
        };
        let vm = configured(h, patched(Irqchip::None, PatchMode::Jmp));
        let event = event();
        let place = IoEventAddress::Mmio(match store.base {
            Base::General(_) | Base::Short(_) => HOLE,
            Base::InstructionPointer | Base::None => NEAR,
        });
        let bell = vm
            .register_payload(&event, place, 1 << store.width)
            .unwrap();
        let memory = vm.memory();
        let mut vcpu = begin(&vm, 0, &program(&instruction), store.registers);
        prop_assert_eq!(run_to_done(&mut vcpu, |_| VmEntry::Resume), []);
        prop_assert_eq!(count(&event), u64::from(ROUNDS));
        prop_assert_eq!(bell.payload(), Some(store.value()));
        // A store whose value is the stack pointer still traps.
        let is_replaced = memory.read_obj::<u8>(GuestAddress(CODE)).unwrap() == JMP;
        let is_of_stack = matches!(store.source, Source::General(RSP));
        prop_assert_eq!(is_replaced, !is_of_stack);
        for (number, before) in (0..).zip(store.registers) {
            let after: u64 = memory.read_obj(GuestAddress(SAVED + 8 * number)).unwrap();
            prop_assert_eq!(after, before, "register {}", number);
        }
        Ok(())
    };
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner.run(&Store::any(), check).unwrap();
}

/// A register of the local APIC, in its page.
const TASK_PRIORITY: u64 = 0xfee0_0080;
/// Memory of a device.
const DEVICE: u64 = HOLE + 0x10_0000;

/// The store in `store_list`.
const LIST_STORE: GuestAddress = GuestAddress(CODE + 12);

/// Stores 4 bytes to each of the addresses in turn, by one instruction. Returns the exits, the count of the doorbells,
/// and what was stored in memory.
fn store_to<H: Hypervisor>(
    h: &H,
    patch: PatchMode,
    irqchip: Irqchip,
    addresses: &[u64],
) -> (Vec<VmExit>, u64, [u32; 2]) {
    let file = Arc::new(File::from(
        memfd_create("device", MemfdFlags::CLOEXEC).unwrap(),
    ));
    file.set_len(0x1000).unwrap();
    let device = DeviceMemory {
        file: Arc::clone(&file),
        offset: 0,
        size: 0x1000,
        writable: true,
    };
    let config = VmConfig {
        device_memory: vec![(DEVICE, device)],
        ..patched(irqchip, patch)
    };
    let vm = configured(h, config);
    let event = event();
    let _doorbells = [HOLE, SAVED, DEVICE, TASK_PRIORITY, HOLE + 0xffe].map(|address| {
        let place = IoEventAddress::Mmio(address);
        vm.register_ioevent(&event, place, Datamatch::U32(None), Sharing::Exclusive)
            .unwrap()
    });
    let list = addresses.iter().flat_map(|address| address.to_le_bytes());
    let code = [
        programs::store_list().code,
        &list.collect::<Vec<_>>(),
        &[0; 8],
    ]
    .concat();
    let mut registers = [0; 16];
    registers[RSP] = jumps::base(0) + jumps::FREE;
    let mut vcpu = begin(&vm, 0, &code, registers);
    let exits = run_to_done(&mut vcpu, |_| VmEntry::Resume);
    let is_replaced = vm.memory().read_obj::<u8>(LIST_STORE).unwrap() == JMP;
    assert_eq!(is_replaced, patch == PatchMode::Jmp);
    let mut of_device = [0; 4];
    file.read_exact_at(&mut of_device, 0).unwrap();
    let of_ram = vm.memory().read_obj(GuestAddress(SAVED)).unwrap();
    (
        exits,
        count(&event),
        [of_ram, u32::from_le_bytes(of_device)],
    )
}

fn a_replaced_store_does_elsewhere_what_it_did<H: Hypervisor>(h: &H) {
    let hot = [HOLE; ROUNDS as usize];
    let elsewhere = [
        // Memory. Stores reach it although there is a doorbell elsewhere.
        SAVED,
        DEVICE,
        // An address without a doorbell.
        HOLE + 8,
        // An access that crosses a page, so its parts are narrower.
        HOLE + 0xffe,
        // A register of the APIC, if there is one.
        TASK_PRIORITY,
        HOLE,
    ];
    let all: Vec<u64> = hot.into_iter().chain(elsewhere).chain(hot).collect();
    for irqchip in [Irqchip::None, Irqchip::Full] {
        let [before, after] =
            [PatchMode::Off, PatchMode::Jmp].map(|patch| store_to(h, patch, irqchip, &all));
        let has_apic = irqchip != Irqchip::None;
        let rings = 2 * u64::from(ROUNDS) + if has_apic { 1 } else { 2 };
        assert_eq!(before.1, rings, "{irqchip:?}");
        assert_eq!(before.0.len(), 3, "{irqchip:?}: {:x?}", before.0);
        assert!(!before.2.contains(&0), "{irqchip:?}: {:x?}", before.2);
        assert_eq!(after, before, "{irqchip:?}");
    }
}

testbed::on_usermode! {
    a_replaced_store_does_elsewhere_what_it_did;
    a_replaced_store_rings_with_any_operands;
}
