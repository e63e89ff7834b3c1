//! A guest that makes the accesses that a test lists.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::Parameters;
use vmbell_hypervisor::{Vcpu, Vm, VmEntry, VmExit};

use crate::arm64::programs;
use testbed::{AREA, run_to_done, start};

/// One access of the guest.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Width (16 stores a pair of registers), address, value.
    Store(u32, u64, u64),
    /// Width, address.
    Load(u32, u64),
    /// A call of the hypercall page: number, argument.
    Call(u64, u64),
    /// The hypercall instruction with this function identifier.
    Hvc(u64),
    /// A jump.
    Jump(u64),
    /// Reads the counter.
    Counter,
    /// Counts at this address forever.
    Spin(u64),
    /// Switches a vCPU on: its number, its first instruction, its argument.
    CpuOn(u64, u64, u64),
}

const RECORD: u64 = 32;

impl Op {
    fn record(self) -> Vec<u8> {
        let (kind, width, address, value, third) = match self {
            Self::Store(width, address, value) => (1, width, address, value, 0),
            Self::Load(width, address) => (2, width, address, 0, 0),
            Self::Call(number, argument) => (3, 8, number, argument, 0),
            Self::Hvc(function) => (4, 8, function, 0, 0),
            Self::Jump(address) => (5, 8, address, 0, 0),
            Self::Counter => (6, 8, 0, 0, 0),
            Self::Spin(address) => (7, 8, address, 0, 0),
            Self::CpuOn(vcpu, pc, argument) => (8, 8, vcpu, pc, argument),
        };
        let words = [u64::from(width) << 32 | kind, address, value, third];
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

/// A guest that makes the listed accesses.
#[derive(Debug)]
pub struct Player<'v> {
    vm: &'v Arc<dyn Vm>,
    pub vcpu: Box<dyn Vcpu>,
}

impl<'v> Player<'v> {
    pub fn new(vm: &'v Arc<dyn Vm>) -> Self {
        let parameters = Parameters {
            address: AREA,
            ..Parameters::default()
        };
        let vcpu = start(vm, programs::accesses(), parameters, 0);
        Self { vm, vcpu }
    }

    /// Writes the list of accesses without making them.
    pub fn write(&self, ops: &[Op]) {
        let mut bytes: Vec<u8> = ops.iter().flat_map(|op| op.record()).collect();
        bytes.extend([0; RECORD as usize]);
        let list = GuestAddress(AREA);
        self.vm.memory().write_slice(&bytes, list).unwrap();
    }

    /// Makes the accesses; returns the exits.
    pub fn play(&mut self, ops: &[Op]) -> Vec<VmExit> {
        self.play_with(ops, |_| VmEntry::Resume)
    }

    /// Like [`play`](Self::play), with answers to the exits.
    pub fn play_with(&mut self, ops: &[Op], answer: impl FnMut(&VmExit) -> VmEntry) -> Vec<VmExit> {
        self.write(ops);
        run_to_done(&mut self.vcpu, answer)
    }

    /// Returns what an access read.
    pub fn result(&self, index: u64) -> u64 {
        let place = AREA + RECORD * index + 24;
        self.vm.memory().read_obj(GuestAddress(place)).unwrap()
    }
}
