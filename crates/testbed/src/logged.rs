//! A guest that plays a script and logs the interrupts that arrive during the script.

use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress};
use vmbell_hypervisor::{Vm, VmExit};

use crate::AREA;
use crate::programs;
use crate::script::{Op, Player};

/// The handler tries the PV EOI word first.
pub const PV_EOI: u64 = 1;
/// The handler writes an EOI.
pub const EOI: u64 = 2;
/// The handler lets itself be interrupted.
pub const NEST: u64 = 4;
/// The handler writes one more EOI.
pub const EOI_TWICE: u64 = 8;
/// The handler returns with IF clear.
pub const STAY_MASKED: u64 = 16;
/// The handler exits to the VMM before the EOI.
pub const LEAVE: u64 = 32;
/// The handler returns with a frame that is not in memory.
pub const LOSE_FRAME: u64 = 64;

/// The PV EOI word.
pub const WORD: u64 = AREA + 0x8808;
const OPTIONS: u64 = AREA + 0x8800;
const LOG: u64 = AREA + 0x9000;
const HANDLER: u64 = AREA + 0x8000;

/// The base of the local APIC.
pub const APIC_BASE: u32 = 0x1b;
/// x2APIC: the task priority.
pub const TPR: u32 = 0x808;
/// x2APIC: the spurious-interrupt vector.
pub const SVR: u32 = 0x80f;
/// x2APIC: the interrupt command.
pub const ICR: u32 = 0x830;
/// x2APIC: an interrupt to itself.
pub const SELF_IPI: u32 = 0x83f;
/// KVM's MSR with the address of the PV EOI word.
pub const MSR_PV_EOI: u32 = 0x4b56_4d04;

/// A vCPU with its script and its log.
#[derive(Debug)]
pub struct Logged<'v> {
    vm: &'v Arc<dyn Vm>,
    /// The guest.
    pub player: Player<'v>,
}

impl<'v> Logged<'v> {
    /// Takes vCPU 0, with its x2APIC on and interrupts masked.
    pub fn new(vm: &'v Arc<dyn Vm>, options: u64) -> Self {
        let code = programs::handler().code;
        vm.memory()
            .write_slice(code, GuestAddress(HANDLER))
            .unwrap();
        let mut player = Player::new(vm);
        player.vcpu.set_interrupt_handler(HANDLER).unwrap();
        let mut logged = Self { vm, player };
        logged.set(options);
        logged.play(&[
            Op::WriteMsr(APIC_BASE, 0xfee0_0c00),
            Op::WriteMsr(SVR, 0x1ff),
        ]);
        logged
    }

    /// Sets what the handler does from now on.
    pub fn set(&mut self, options: u64) {
        let memory = self.vm.memory();
        memory.write_obj(options, GuestAddress(OPTIONS)).unwrap();
    }

    /// Raises a vector on vCPU 0 from outside.
    pub fn raise(&self, vector: u8) {
        assert!(self.vm.signal_msi(crate::taker::msi(0, vector)).unwrap());
    }

    /// Plays a script.
    pub fn play(&mut self, ops: &[Op]) -> Vec<VmExit> {
        self.player.play(ops)
    }

    /// Plays a script and returns what was logged during it.
    pub fn log(&mut self, ops: &[Op]) -> Vec<u64> {
        self.play(ops);
        self.take_log()
    }

    /// Returns what was logged since the last call.
    pub fn take_log(&mut self) -> Vec<u64> {
        let memory = self.vm.memory();
        let count: u64 = memory.read_obj(GuestAddress(LOG)).unwrap();
        memory.write_obj(0_u64, GuestAddress(LOG)).unwrap();
        let word = |index| memory.read_obj(GuestAddress(LOG + 8 + 8 * index)).unwrap();
        (0..count).map(word).collect()
    }

    /// Returns the PV EOI word as the guest sees it.
    pub fn word(&self) -> u32 {
        self.vm.memory().read_obj(GuestAddress(WORD)).unwrap()
    }
}

/// An empty log.
pub const NOTHING: [u64; 0] = [];

/// The log of a vector whose handler begins and ends.
pub fn whole(vector: u8) -> [u64; 2] {
    [vector.into(), u64::from(vector) | 0x100]
}
