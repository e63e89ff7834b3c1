//! A guest that jumps to addresses that the host chooses, with registers that the host chooses.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{Parameters, offset};
use vmbell_hypervisor::{EntryPoint, Vcpu, Vm};

use crate::{AREA, programs};

/// Places of the general registers, in the order of their encoding.
pub const RAX: usize = 0;
/// See [`RAX`].
pub const RCX: usize = 1;
/// See [`RAX`].
pub const RDX: usize = 2;
/// See [`RAX`].
pub const RBX: usize = 3;
/// See [`RAX`].
pub const RSP: usize = 4;
/// See [`RAX`].
pub const RSI: usize = 6;
/// See [`RAX`].
pub const RDI: usize = 7;
/// See [`RAX`].
pub const R10: usize = 10;

/// The maximum number of jumps of one guest.
pub const MOST: usize = 60;
/// RAM for one vCPU's jumps: parameters, code, list, and free memory from [`FREE`] on.
pub const SIZE: u64 = 0x4_0000;
/// Offset of the free memory in that RAM.
pub const FREE: u64 = 0x8000;

const CODE: u64 = 0x1000;
const LIST: u64 = 0x2000;
const LANDING: u64 = 16;

/// One jump.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    /// The general registers in the order of their encoding.
    pub registers: [u64; 16],
    /// The address to jump to.
    pub target: u64,
}

impl Jump {
    /// The registers of a system call, with a stack in the RAM of vCPU 0.
    pub fn call(target: u64, number: u64, arguments: [u64; 4]) -> Self {
        let mut registers = [0; 16];
        registers[RAX] = number;
        registers[RDI] = arguments[0];
        registers[RSI] = arguments[1];
        registers[RDX] = arguments[2];
        registers[R10] = arguments[3];
        registers[RSP] = base(0) + FREE;
        Self { registers, target }
    }
}

/// The RAM of a vCPU's jumps.
pub const fn base(index: u32) -> u64 {
    AREA + SIZE * index as u64
}

/// Where a jump that comes back lands.
pub const fn landing(index: u32) -> u64 {
    base(index) + CODE + LANDING
}

/// Takes a vCPU that makes these jumps in turn. Before each, `back` words of its stack are set to lead back.
pub fn take(vm: &Arc<dyn Vm>, index: u32, jumps: &[Jump], back: u64) -> Box<dyn Vcpu> {
    assert!(jumps.len() <= MOST, "{} jumps", jumps.len());
    let at = |offset| GuestAddress(base(index) + offset);
    let memory = vm.memory();
    memory
        .write_slice(programs::jumps().code, at(CODE))
        .unwrap();
    let words = jumps
        .iter()
        .flat_map(|jump| jump.registers.into_iter().chain([jump.target]));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    memory.write_slice(&bytes, at(LIST)).unwrap();
    let parameters = Parameters {
        count: jumps.len() as u64,
        address: base(index) + LIST,
        value: back,
        pause: 0,
    };
    parameters.write(memory, at(0)).unwrap();
    let mut vcpu = vm.create_vcpu(index).unwrap();
    let entry = EntryPoint::Program {
        pc: base(index) + CODE,
        sp: base(index) + FREE,
        arguments: [base(index), index.into()],
    };
    vcpu.set_entry_point(entry).unwrap();
    vcpu
}

/// Returns how often a jump came back.
pub fn landed(vm: &Arc<dyn Vm>, index: u32) -> u64 {
    let place = GuestAddress(base(index) + offset::RINGS as u64);
    vm.memory().read_obj(place).unwrap()
}
