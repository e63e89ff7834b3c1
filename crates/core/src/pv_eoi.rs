//! The host's side of paravirtual EOI: a bit in guest memory says that the vector in service needs no EOI.
//!
//! See Linux `Documentation/virt/kvm/x86/msr.rst`, MSR_KVM_PV_EOI_EN. The state machine is that of
//! `arch/x86/kvm/lapic.c` (`apic_sync_pv_eoi_to_guest`, `apic_sync_pv_eoi_from_guest`). The host's flag (`pending`) and
//! the bit in guest memory together give the state of the EOI:
//!
//! | flag | bit | state |
//! |---|---|---|
//! | 0 | - | not armed: the guest writes EOI |
//! | 1 | 1 | armed: in service, and the guest need not write EOI |
//! | 1 | 0 | the guest has cleared the bit: the host owes the EOI |
//!
//! Only the thread that runs the vCPU changes this state, and only while the vCPU is outside the guest. The guest can
//! write the byte at any time. An exit reads the byte once, and the byte affects only the guest's own EOI. Any thread
//! may check whether the guest has cleared the bit ([`PvEoi::is_ended`]).
//!
//! ```
//! use std::cell::Cell;
//!
//! use vmbell_core::lapic::{Lapic, Register};
//! use vmbell_core::pv_eoi::{Completion, GuestByte, PvEoi};
//!
//! #[derive(Default)]
//! struct Byte(Cell<u8>);
//!
//! impl GuestByte for Byte {
//!     fn read(&self, _: u64) -> Option<u8> {
//!         Some(self.0.get())
//!     }
//!     fn write(&self, _: u64, value: u8) -> bool {
//!         self.0.set(value);
//!         true
//!     }
//! }
//!
//! let (lapic, pv_eoi, byte) = (Lapic::default(), PvEoi::default(), Byte::default());
//! lapic.reset(0);
//! let _ = lapic.write(Register::Svr, 0x1ff);
//! pv_eoi.write_msr(0x1000 | 1, |_| true).expect("RAM is there");
//! let _ = lapic.raise(0x41, false);
//! lapic.start_service(0x41);
//! assert!(pv_eoi.arm(&lapic, &byte));
//! byte.0.set(0); // The guest ends its interrupt.
//! assert!(matches!(pv_eoi.complete(&lapic, &byte), Completion::Completed(Some(_))));
//! ```

use crate::lapic::{Eoi, Lapic};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, AtomicU64, fence};

/// MSR_KVM_PV_EOI_EN.
pub const MSR_PV_EOI: u32 = 0x4b56_4d04;
/// KVM_FEATURE_PV_EOI: the number of its bit in CPUID leaf 0x40000001, EAX.
pub const FEATURE_BIT: u32 = 6;

const ENABLED: u64 = 1;
/// Bit 1 must be 0: the word is aligned to 4 bytes, and bit 0 is [`ENABLED`].
const RESERVED: u64 = 2;

/// Access to the byte in guest memory that holds the bit. The guest chose its address, so each access can fail.
pub trait GuestByte {
    /// Reads the byte at a guest-physical address; `None` if the read fails.
    fn read(&self, address: u64) -> Option<u8>;
    /// Writes the byte at a guest-physical address; returns whether the write succeeded.
    fn write(&self, address: u64, value: u8) -> bool;
}

/// The MSR refuses the value: `wrmsr` raises #GP in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// What [`PvEoi::complete`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Completion {
    /// No EOI was armed.
    Off,
    /// The guest has not reached its EOI. The host has cleared the bit: the guest will write EOI itself.
    Disarmed,
    /// The guest cleared the bit instead of writing EOI, and the host has done the EOI; `None` if no vector was in
    /// service.
    Completed(Option<Eoi>),
}

/// One vCPU's paravirtual EOI. All-zero bytes mean that the guest has not enabled paravirtual EOI.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PvEoi {
    msr: AtomicU64,
    /// 0 if no EOI is armed. Otherwise the low 8 bits are the vector, and the bits above them are a number that changes
    /// with each arming. The number shows a reader whether the byte that it has read belongs to the same arming.
    pending: AtomicU32,
    /// How often an EOI was armed.
    armings: AtomicU32,
}

impl PvEoi {
    /// Sets the state after power-on or INIT: not enabled, not armed.
    pub fn reset(&self) {
        self.msr.store(0, Relaxed);
        self.pending.store(0, Relaxed);
    }

    /// The value of MSR_KVM_PV_EOI_EN, for `rdmsr`.
    pub fn read_msr(&self) -> u64 {
        self.msr.load(Relaxed)
    }

    /// Handles `wrmsr` of MSR_KVM_PV_EOI_EN. `is_ram` returns whether RAM backs a guest-physical address.
    ///
    /// Fails with [`Fault`] if bit 1 is set, or if the value enables paravirtual EOI at an address without RAM.
    pub fn write_msr(&self, value: u64, is_ram: impl FnOnce(u64) -> bool) -> Result<(), Fault> {
        let switched_on = value & ENABLED != 0;
        if value & RESERVED != 0 || switched_on && !is_ram(value & !ENABLED) {
            return Err(Fault);
        }
        self.msr.store(value, Relaxed);
        Ok(())
    }

    /// Whether an EOI is armed, so that the next exit must check the bit in guest memory.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Relaxed) != 0
    }

    /// The guest-physical address of the guest's word, if the guest has enabled paravirtual EOI.
    fn word(&self) -> Option<u64> {
        let msr = self.read_msr();
        (msr & ENABLED != 0).then_some(msr & !ENABLED)
    }

    /// Lets the guest skip the EOI of the newest vector in service, unless a request or a device waits for that EOI.
    /// Returns whether it may. Called on the way into the guest, after an interrupt was or could have been injected.
    ///
    /// If a request arrives later, it must make the vCPU leave the guest, and the exit calls
    /// [`complete`](Self::complete).
    pub fn arm(&self, lapic: &Lapic, memory: &impl GuestByte) -> bool {
        self.arm_unless(lapic, memory, |vector| {
            // The bitmap alone is not enough. If a level interrupt's message has a logical destination, and this APIC
            // got that logical address after the monitor filled the bitmap, the vector is missing there.
            lapic.eoi_exit_bitmap.contains(vector) || lapic.tmr.contains(vector)
        })
    }

    /// Like [`arm`](Self::arm), for a vector whose EOI no device waits for (see [`crate::ioapic::begin_service`]).
    pub fn arm_forwarded(&self, lapic: &Lapic, memory: &impl GuestByte) -> bool {
        self.arm_unless(lapic, memory, |_| false)
    }

    fn arm_unless(
        &self,
        lapic: &Lapic,
        memory: &impl GuestByte,
        is_awaited: impl FnOnce(u8) -> bool,
    ) -> bool {
        let Some(word) = self.word() else {
            return false;
        };
        // Any request counts, even one whose priority is too low: it can be delivered at the EOI, so the EOI must be a
        // real one.
        if !lapic.irr.is_empty() {
            return false;
        }
        let Some(vector) = lapic.newest_in_service() else {
            return false;
        };
        if is_awaited(vector) || !memory.write(word, 1) {
            return false;
        }
        let armings = self.armings.load(Relaxed).wrapping_add(1);
        self.armings.store(armings, Relaxed);
        self.pending
            .store(armings << 8 | u32::from(vector), Release);
        true
    }

    /// Whether the guest has cleared the bit for `vector`: its interrupt has ended, though the host has not done the
    /// EOI yet. Any thread may ask. If the guest writes wrong values, only this answer is wrong.
    pub fn is_ended(&self, vector: u8, read: impl FnOnce(u64) -> Option<u8>) -> bool {
        let pending = self.pending.load(Acquire);
        if pending & 0xff != u32::from(vector) {
            return false;
        }
        let Some(byte) = self.word().and_then(read) else {
            return false;
        };
        fence(Acquire);
        byte & 1 == 0 && self.pending.load(Relaxed) == pending
    }

    /// Disarms, and does the EOI if the guest has cleared the bit. Called first on every exit.
    pub fn complete(&self, lapic: &Lapic, memory: &impl GuestByte) -> Completion {
        if !self.is_pending() {
            return Completion::Off;
        }
        let Some(word) = self.word() else {
            // CVE-2026-72284: this happens if the guest's byte could not be accessed, which leaves the flag set, and
            // the guest then disables paravirtual EOI.
            self.pending.store(0, Relaxed);
            return Completion::Disarmed;
        };
        // As in Linux, a byte that cannot be read or written back counts as cleared, and the flag stays set.
        if let Some(byte) = memory.read(word) {
            let armed = byte & 1 != 0;
            let pending = self.pending.load(Relaxed);
            self.pending.store(0, Relaxed);
            // Before the byte changes: a thread that reads it must not mistake the host's 0 for the guest's.
            fence(Release);
            if armed && memory.write(word, 0) {
                return Completion::Disarmed;
            }
            if armed {
                self.pending.store(pending, Relaxed);
            }
        }
        Completion::Completed(lapic.eoi())
    }
}
