//! A vCPU without a processor: a local APIC, the host's loop around it, and a guest whose handlers nest.
//!
//! The loop is a backend's loop. On every way out of the guest it completes a paravirtual EOI; on the way in, if there
//! is a reason to, it injects the next vector and arms the PV EOI bit.

use std::cell::Cell;

use vmbell_core::lapic::{Effect, Eoi, Lapic, Raise, Register, VectorSet};
use vmbell_core::pv_eoi::{Completion, GuestByte, PvEoi};

use super::lapic;

/// The address of the PV EOI word.
pub const WORD: u64 = 0x3000;
const ENABLE: u64 = WORD | 1;

/// Guest memory: the PV EOI word, which may become unreadable or read-only.
#[derive(Debug, Default)]
pub struct Word {
    pub byte: Cell<u8>,
    pub unmapped: Cell<bool>,
    pub read_only: Cell<bool>,
}

impl GuestByte for Word {
    fn read(&self, address: u64) -> Option<u8> {
        (address == WORD && !self.unmapped.get()).then(|| self.byte.get())
    }

    fn write(&self, address: u64, value: u8) -> bool {
        let works = address == WORD && !self.unmapped.get() && !self.read_only.get();
        if works {
            self.byte.set(value);
        }
        works
    }
}

/// A handler that was entered and has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handler {
    pub vector: u8,
    /// Whether the handler has done its EOI, by the bit or by the register.
    pub ended: bool,
    /// Whether the code that the handler returns to may be interrupted.
    interruptible: bool,
}

/// A vCPU and its guest.
#[derive(Debug)]
pub struct Vcpu {
    pub lapic: Lapic,
    pub pv_eoi: PvEoi,
    pub word: Word,
    pub handlers: Vec<Handler>,
    pub interruptible: bool,
    /// Whether a vector was raised since the guest was last left.
    pub kicked: bool,
    /// Whether the loop has to check for a vector to inject (Linux `KVM_REQ_EVENT`).
    event: bool,
    /// Vectors in the order in which they left service.
    pub ended: Vec<u8>,
    /// The number of vectors that left service by the PV EOI bit.
    pub spared: usize,
    pub begun: usize,
    pub accepted: usize,
    pub exits: usize,
}

impl Vcpu {
    /// Makes a vCPU in the guest and interruptible, which uses PV EOI if `pv_eoi` is set.
    pub fn new(pv_eoi: bool) -> Self {
        let vcpu = Self {
            lapic: lapic(0),
            pv_eoi: PvEoi::default(),
            word: Word::default(),
            handlers: Vec::new(),
            interruptible: true,
            kicked: false,
            event: false,
            ended: Vec::new(),
            spared: 0,
            begun: 0,
            accepted: 0,
            exits: 0,
        };
        if pv_eoi {
            vcpu.pv_eoi
                .write_msr(ENABLE, |address| address == WORD)
                .unwrap();
        }
        vcpu
    }

    /// Raises a vector, as another thread.
    pub fn raise(&mut self, vector: u8) -> Raise {
        let raise = self.lapic.raise(vector, false);
        if raise == Raise::Accepted {
            self.accepted += 1;
            self.kicked = true;
        }
        raise
    }

    /// Leaves the guest.
    pub fn exit(&mut self) -> Completion {
        self.exits += 1;
        self.event |= std::mem::take(&mut self.kicked);
        let completion = self.pv_eoi.complete(&self.lapic, &self.word);
        if let Completion::Completed(eoi) = completion {
            self.spared += 1;
            self.note(eoi);
        }
        completion
    }

    fn note(&mut self, eoi: Option<Eoi>) {
        self.ended.extend(eoi.map(|eoi| eoi.vector));
        self.event = true;
    }

    /// Enters the guest.
    pub fn enter(&mut self) {
        if !std::mem::take(&mut self.event) {
            return;
        }
        if self.interruptible
            && let Some(vector) = self.lapic.next_interrupt()
        {
            assert!(self.lapic.start_service(vector));
            self.begun += 1;
            self.handlers.push(Handler {
                vector,
                ended: false,
                interruptible: true,
            });
            self.interruptible = false;
        }
        self.pv_eoi.arm(&self.lapic, &self.word);
    }

    /// Makes an exit that has nothing to do with interrupts.
    pub fn unrelated_exit(&mut self) {
        let _ = self.exit();
        self.enter();
    }

    /// Raises a vector, and makes the exit that its kick causes.
    pub fn interrupt(&mut self, vector: u8) {
        let _ = self.raise(vector);
        self.unrelated_exit();
    }

    /// Executes `sti`: makes the exit of an interrupt window, if a vector is pending.
    pub fn sti(&mut self) {
        self.interruptible = true;
        if self.lapic.next_interrupt().is_some() {
            let _ = self.exit();
            self.event = true;
            self.enter();
        }
    }

    /// Does the guest's EOI: tests and clears the bit, or writes to the register. Returns whether the bit spared the
    /// write.
    pub fn eoi(&mut self) -> bool {
        if let Some(handler) = self.innermost() {
            handler.ended = true;
        }
        if self.test_and_clear() {
            return true;
        }
        self.write_eoi();
        false
    }

    /// Tests and clears the bit, by one instruction.
    pub fn test_and_clear(&mut self) -> bool {
        self.word.byte.replace(self.word.byte.get() & !1) & 1 != 0
    }

    /// Writes to the EOI register.
    pub fn write_eoi(&mut self) {
        let _ = self.exit();
        match self.lapic.write(Register::Eoi, 0) {
            Effect::Eoi(eoi) => self.note(Some(eoi)),
            effect => assert_eq!(effect, Effect::None),
        }
        self.event = true;
        self.enter();
    }

    /// Writes to the task priority.
    pub fn write_tpr(&mut self, value: u8) {
        let _ = self.exit();
        assert_eq!(self.lapic.write(Register::Tpr, value.into()), Effect::None);
        self.event = true;
        self.enter();
    }

    /// Writes to the PV EOI register.
    pub fn write_msr(&mut self, value: u64) -> bool {
        let _ = self.exit();
        let good = self.pv_eoi.write_msr(value, |address| address == WORD);
        self.enter();
        good.is_ok()
    }

    /// Saves the vCPU at an exit and restores it elsewhere: memory, then the local APIC's registers, lowest
    /// vector first, then the PV EOI register. The host's own flag is not part of the saved state.
    pub fn migrate(&mut self) {
        let _ = self.exit();
        let there = lapic(self.lapic.id());
        for vector in self.in_service().into_iter().rev() {
            assert_eq!(there.raise(vector, false), Raise::Accepted);
            assert!(there.start_service(vector));
        }
        for vector in vectors(&self.lapic.irr) {
            assert_eq!(there.raise(vector, false), Raise::Accepted);
        }
        let priority = self.lapic.read(Register::Tpr);
        assert_eq!(there.write(Register::Tpr, priority), Effect::None);
        let register = self.pv_eoi.read_msr();
        self.pv_eoi = PvEoi::default();
        let put_back = self.pv_eoi.write_msr(register, |address| address == WORD);
        assert_eq!(put_back, Ok(()));
        self.lapic = there;
        self.event = true;
        self.enter();
    }

    /// Returns the running handler that has not done its EOI.
    pub fn innermost(&mut self) -> Option<&mut Handler> {
        self.handlers
            .iter_mut()
            .rev()
            .find(|handler| !handler.ended)
    }

    /// Executes `iretq`.
    pub fn iret(&mut self) {
        if let Some(handler) = self.handlers.pop()
            && handler.interruptible
        {
            self.sti();
        }
    }

    /// Returns whether the guest would now skip the write to the EOI register.
    pub fn is_armed(&self) -> bool {
        self.pv_eoi.is_pending() && self.word.byte.get() & 1 != 0
    }

    /// Returns the vectors in service, highest first.
    pub fn in_service(&self) -> Vec<u8> {
        let words = (0..8).map(|index| self.lapic.read(Register::Isr(index)));
        let mut all = list(words);
        all.reverse();
        all
    }
}

/// Returns the vectors of a set, lowest first.
pub fn vectors(set: &VectorSet) -> Vec<u8> {
    list((0..8).map(|index| set.word(index)))
}

fn list(words: impl Iterator<Item = u32>) -> Vec<u8> {
    let bits = (0..=u8::MAX).step_by(32).zip(words);
    let vectors = bits.flat_map(|(base, word)| {
        (0..32_u8).filter_map(move |bit| (word >> bit & 1 != 0).then_some(base + bit))
    });
    vectors.collect()
}
