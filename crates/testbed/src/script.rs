//! A guest that plays a test's script, one access at a time.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};
use vmbell_guest::{PARAMETERS, Parameters};
use vmbell_hypervisor::{Vcpu, Vm, VmEntry, VmExit};

use crate::{AREA, bells, programs, run_to_done, start};

/// One access of the guest.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A write to a bell ([`bells`]): width, bell, value.
    Out(u32, u16, u32),
    /// A read from a bell: width, bell.
    In(u32, u16),
    /// Width (16 is the store of a vector register), address, value.
    Store(u32, u64, u64),
    /// Width, address.
    Load(u32, u64),
    /// A hypercall: number, argument.
    Call(u64, u64),
    /// Waits for an interrupt: `hlt`, `wfi`.
    Halt,
    /// `wrmsr`: index, value.
    WriteMsr(u32, u64),
    /// `rdmsr`: index.
    ReadMsr(u32),
    /// Takes interrupts: `sti`, and an instruction after it.
    Unmask,
    /// `cli`.
    Mask,
    /// `sti` and `hlt`.
    UnmaskAndHalt,
    /// `sti` and `cli`.
    UnmaskAndMask,
}

const RECORD: usize = 32;

impl Op {
    fn record(self) -> [u8; RECORD] {
        let (kind, width, address, value) = match self {
            Self::Out(width, bell, value) if bells::ARE_PORTS => {
                (1, width, bell.into(), value.into())
            }
            Self::Out(width, bell, value) => (3, width, bells::number(bell), value.into()),
            Self::In(width, bell) if bells::ARE_PORTS => (2, width, bell.into(), 0),
            Self::In(width, bell) => (4, width, bells::number(bell), 0),
            Self::Store(width, address, value) => (3, width, address, value),
            Self::Load(width, address) => (4, width, address, 0),
            Self::Call(number, argument) => (5, 8, number, argument),
            Self::Halt => (6, 0, 0, 0),
            Self::WriteMsr(index, value) => (7, 8, index.into(), value),
            Self::ReadMsr(index) => (8, 8, index.into(), 0),
            Self::Unmask => (9, 0, 0, 0),
            Self::Mask => (10, 0, 0, 0),
            Self::UnmaskAndHalt => (11, 0, 0, 0),
            Self::UnmaskAndMask => (12, 0, 0, 0),
        };
        let mut record = [0; RECORD];
        record[..4].copy_from_slice(&u32::to_le_bytes(kind));
        record[4..8].copy_from_slice(&width.to_le_bytes());
        record[8..16].copy_from_slice(&address.to_le_bytes());
        record[16..24].copy_from_slice(&value.to_le_bytes());
        record
    }
}

/// A vCPU that plays scripts.
#[derive(Debug)]
pub struct Player<'v> {
    vm: &'v Arc<dyn Vm>,
    /// The vCPU.
    pub vcpu: Box<dyn Vcpu>,
    script: u64,
}

impl<'v> Player<'v> {
    /// Takes vCPU 0.
    pub fn new(vm: &'v Arc<dyn Vm>) -> Self {
        let vcpu = start(
            vm,
            programs::script(),
            Parameters {
                address: AREA,
                ..Parameters::default()
            },
            0,
        );
        Self {
            vm,
            vcpu,
            script: AREA,
        }
    }

    /// Takes a further vCPU; its parameters are in the page below its script.
    pub fn another(vm: &'v Arc<dyn Vm>, index: u32) -> Self {
        let script = AREA + 0x1_0000 * u64::from(index);
        let page = GuestAddress(script - 0x1000);
        assert!(page.0 > PARAMETERS.0, "vcpu 0 has its own page");
        Parameters {
            address: script,
            ..Parameters::default()
        }
        .write(vm.memory(), page)
        .unwrap();
        Self {
            vm,
            vcpu: super::begin_at(vm, index, page),
            script,
        }
    }

    /// Writes a script without playing it.
    pub fn write(&self, ops: &[Op]) {
        let mut bytes: Vec<u8> = ops.iter().flat_map(|op| op.record()).collect();
        bytes.extend([0; RECORD]);
        self.vm
            .memory()
            .write_slice(&bytes, GuestAddress(self.script))
            .unwrap();
    }

    /// Plays a script, and returns the exits.
    pub fn play(&mut self, ops: &[Op]) -> Vec<VmExit> {
        self.play_with(ops, |_| VmEntry::Resume)
    }

    /// Plays a script, with answers to its reads, and returns the exits.
    pub fn play_with(&mut self, ops: &[Op], answer: impl FnMut(&VmExit) -> VmEntry) -> Vec<VmExit> {
        self.write(ops);
        run_to_done(&mut self.vcpu, answer)
    }

    /// Returns the value register after an access of the script.
    pub fn result(&self, index: usize) -> u64 {
        self.vm
            .memory()
            .read_obj(GuestAddress(self.script + (RECORD * index) as u64 + 24))
            .unwrap()
    }
}
