//! The local APIC: which vector is next, which is in service, and what its registers say.
//!
//! Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller", as far as a
//! paravirtual guest uses it: fixed and lowest-priority interrupts, priorities, EOI, IPIs, in
//! xAPIC and x2APIC mode. There are no local vectors and no timer; their registers are reserved ones.
//! Where the manual leaves a choice, Linux `arch/x86/kvm/lapic.c` decides.
//!
//! A [`Lapic`] is plain data in memory that monitor and sandbox share. IRR and TMR belong to
//! whoever sends, on any thread; everything else to the thread that runs the vCPU.

mod access;
mod message;
mod register;
mod service;
mod vectors;

pub use access::Effect;
pub use message::{Destination, Message, Mode};
pub use register::{MMIO_BASE, MMIO_SIZE, MSR_APIC_BASE, MSR_BASE, MSR_END, Register};
pub use service::{Eoi, Raise};
pub use vectors::VectorSet;

use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

/// Vectors below it are exceptions and cannot be interrupts.
pub const FIRST_VECTOR: u8 = 16;

/// One vCPU's local APIC. All-zero bytes are an APIC that is switched off; see [`reset`](Self::reset).
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Lapic {
    /// Interrupt requests: raised and not yet begun.
    pub irr: VectorSet,
    /// Trigger mode of each vector when it was raised last: a bit that is set means level.
    pub tmr: VectorSet,
    /// Vectors whose EOI somebody waits for (I/O APIC level pins, resampling irqfds), so that it
    /// must not be put off. The monitor writes it.
    pub watched: VectorSet,
    /// In service: begun and not yet at their EOI.
    isr: VectorSet,
    /// The APIC ID.
    id: AtomicU32,
    /// Bits 10 and 11 of the APIC base register: x2APIC, and on at all.
    mode: AtomicU32,
    tpr: AtomicU32,
    svr: AtomicU32,
    ldr: AtomicU32,
    dfr: AtomicU32,
    esr: AtomicU32,
    /// Errors since the guest last wrote ESR.
    errors: AtomicU32,
    icr_low: AtomicU32,
    icr_high: AtomicU32,
    /// 1 + the vector that came into service last, 0 once any has left since.
    newest: AtomicU32,
}

impl Lapic {
    /// As after power-on or INIT: xAPIC mode, disabled by software, nothing pending.
    pub fn reset(&self, id: u32) {
        for set in [&self.irr, &self.tmr, &self.isr] {
            set.clear();
        }
        for (word, value) in [
            (&self.id, id),
            (&self.mode, register::BASE_ENABLED),
            (&self.tpr, 0),
            (&self.svr, register::SPURIOUS),
            (&self.ldr, 0),
            (&self.dfr, u32::MAX),
            (&self.esr, 0),
            (&self.errors, 0),
            (&self.icr_low, 0),
            (&self.icr_high, 0),
            (&self.newest, 0),
        ] {
            word.store(value, Relaxed);
        }
    }

    /// The APIC ID.
    pub fn id(&self) -> u32 {
        self.id.load(Relaxed)
    }

    /// Whether the APIC is in x2APIC mode: registers are MSRs.
    pub fn is_x2apic(&self) -> bool {
        self.mode.load(Relaxed) == register::BASE_ENABLED | register::BASE_X2APIC
    }

    /// Whether the APIC is in xAPIC mode: registers are in the page at [`MMIO_BASE`].
    pub fn is_xapic(&self) -> bool {
        self.mode.load(Relaxed) == register::BASE_ENABLED
    }

    /// Whether it takes interrupts: on, and enabled by software (SVR bit 8).
    pub fn is_enabled(&self) -> bool {
        let on = self.mode.load(Relaxed) & register::BASE_ENABLED != 0;
        on && self.svr.load(Relaxed) & register::SVR_ENABLED != 0
    }
}
