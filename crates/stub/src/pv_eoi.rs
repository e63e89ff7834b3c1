//! The host's side of paravirtual EOI: a bit in guest memory that says "this one needs no EOI".
//!
//! Linux `Documentation/virt/kvm/x86/msr.rst`, MSR_KVM_PV_EOI_EN; the state machine is that of
//! `arch/x86/kvm/lapic.c` (`apic_sync_pv_eoi_to_guest`, `apic_sync_pv_eoi_from_guest`). The host's
//! flag and the guest's bit say together where a vector is:
//!
//! | flag | bit | |
//! |---|---|---|
//! | 0 | - | off |
//! | 1 | 1 | armed: in service, and the guest need not write EOI |
//! | 1 | 0 | the guest has cleared the bit: the host owes the EOI |
//!
//! The thread that runs the vCPU calls all of it, outside the guest. The guest's byte is read once
//! and believed for nothing but its own vectors.

use crate::lapic::{Eoi, Lapic};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, AtomicU64};

/// MSR_KVM_PV_EOI_EN.
pub const MSR_PV_EOI: u32 = 0x4b56_4d04;
/// KVM_FEATURE_PV_EOI: the bit of CPUID leaf 0x40000001, EAX.
pub const FEATURE_BIT: u32 = 6;

const ENABLED: u64 = 1;
/// What must be 0: the word is aligned to 4 bytes, bit 0 is the switch.
const RESERVED: u64 = 2;

/// The guest's byte, which may have gone.
pub trait GuestByte {
    /// Reads the byte at a guest-physical address; none if that fails.
    fn read(&self, address: u64) -> Option<u8>;
    /// Writes it; whether that went well.
    fn write(&self, address: u64, value: u8) -> bool;
}

/// A write to the MSR that is #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What [`PvEoi::complete`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Completion {
    /// Nothing was armed.
    Off,
    /// The guest has not come to its EOI: it will write a real one.
    Disarmed,
    /// The guest was spared an EOI, and the host has done it; nothing inside if no vector was in service.
    Completed(Option<Eoi>),
}

/// One vCPU's state. All-zero bytes are: off.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PvEoi {
    msr: AtomicU64,
    pending: AtomicU32,
}

impl PvEoi {
    /// As after power-on or INIT.
    pub fn reset(&self) {
        self.msr.store(0, Relaxed);
        self.pending.store(0, Relaxed);
    }

    /// `rdmsr`.
    pub fn read_msr(&self) -> u64 {
        self.msr.load(Relaxed)
    }

    /// `wrmsr`. `is_ram` says whether there is memory behind a guest-physical address.
    pub fn write_msr(&self, value: u64, is_ram: impl FnOnce(u64) -> bool) -> Result<(), Fault> {
        let switched_on = value & ENABLED != 0;
        if value & RESERVED != 0 || switched_on && !is_ram(value & !ENABLED) {
            return Err(Fault);
        }
        self.msr.store(value, Relaxed);
        Ok(())
    }

    /// Whether the host has a bit in guest memory to come back to.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Relaxed) != 0
    }

    /// The guest's word, if the guest wants it.
    fn word(&self) -> Option<u64> {
        let msr = self.read_msr();
        (msr & ENABLED != 0).then_some(msr & !ENABLED)
    }

    /// On the way into the guest, after an interrupt was injected or could have been: spares the
    /// guest the EOI of the newest vector, if nothing would wait for it. Whether it did.
    ///
    /// A request that comes later must make the vCPU leave the guest, and so [`complete`](Self::complete).
    pub fn arm(&self, lapic: &Lapic, memory: &impl GuestByte) -> bool {
        let Some(word) = self.word() else {
            return false;
        };
        // Any request at all, also one that must wait: its turn comes at the EOI.
        if !lapic.irr.is_empty() {
            return false;
        }
        let Some(vector) = lapic.newest() else {
            return false;
        };
        // A level is not among those watched while its message names APICs by a logical address that this
        // one has got since.
        let is_awaited = lapic.watched.contains(vector) || lapic.tmr.contains(vector);
        if is_awaited || !memory.write(word, 1) {
            return false;
        }
        self.pending.store(1, Relaxed);
        true
    }

    /// On every way out of the guest, before anything else is done about it.
    pub fn complete(&self, lapic: &Lapic, memory: &impl GuestByte) -> Completion {
        if !self.is_pending() {
            return Completion::Off;
        }
        let Some(word) = self.word() else {
            // CVE-2026-72284: the guest can come here, by a word that fails and then switching off.
            self.pending.store(0, Relaxed);
            return Completion::Disarmed;
        };
        // As Linux does: a byte that cannot be read, or not be written back, counts as cleared, and
        // stays pending.
        if let Some(byte) = memory.read(word) {
            let armed = byte & 1 != 0;
            if !armed || memory.write(word, 0) {
                self.pending.store(0, Relaxed);
                if armed {
                    return Completion::Disarmed;
                }
            }
        }
        Completion::Completed(lapic.eoi())
    }
}
