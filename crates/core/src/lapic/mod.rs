//! The local APIC: its requests (IRR), the vectors in service (ISR), priorities and registers.
//!
//! Follows Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller", as far as a paravirtual guest uses
//! it: fixed and lowest-priority interrupts, priorities, EOI, and IPIs, in xAPIC and x2APIC mode. There is no local
//! vector table and no timer; their registers count as reserved. Where the manual leaves a choice, Linux
//! `arch/x86/kvm/lapic.c` decides.
//!
//! A [`Lapic`] is plain data in memory that the monitor and the sandbox share. A sender of interrupts changes IRR and
//! TMR, on any thread. The monitor changes the EOI exit bitmap. The thread that runs the vCPU changes the other fields.
//!
//! ```
//! use vmbell_core::lapic::{Eoi, Lapic, Raise, Register};
//!
//! let lapic = Lapic::default();
//! lapic.reset(0);
//! let _ = lapic.write(Register::Svr, 0x1ff); // The guest switches it on.
//! assert_eq!(lapic.raise(0x41, false), Raise::Accepted);
//! assert_eq!(lapic.raise(0x41, false), Raise::Coalesced);
//! assert_eq!(lapic.next_interrupt(), Some(0x41));
//! assert!(lapic.start_service(0x41));
//! assert_eq!(lapic.eoi(), Some(Eoi { vector: 0x41, level: false }));
//! ```

mod message;
mod registers;
mod service;

use core::iter;

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

pub use message::{Destination, Message, Mode};
pub use registers::{Effect, MMIO_BASE, MMIO_SIZE, MSR_APIC_BASE, MSR_BASE, MSR_END, Register};
pub use service::{Eoi, Raise};

/// The lowest vector of an interrupt; lower vectors are exceptions.
pub const FIRST_VECTOR: u8 = 16;

/// One vCPU's local APIC. All-zero bytes are an APIC that is switched off; [`reset`](Self::reset) switches it on.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Lapic {
    /// Interrupt request register: vectors that were raised and whose handlers have not begun.
    pub irr: VectorSet,
    /// Trigger mode register: for each vector, whether its last raise was level-triggered.
    pub tmr: VectorSet,
    /// EOI exit bitmap: the vectors for whose EOI an I/O APIC pin or a resamplefd waits. Paravirtual EOI must not defer
    /// such an EOI. The monitor writes the set.
    pub eoi_exit_bitmap: VectorSet,
    /// In-service register: vectors whose handlers have begun and have not reached their EOI.
    isr: VectorSet,
    /// The APIC ID.
    id: AtomicU32,
    /// Bits 10 and 11 of the APIC base register: x2APIC mode, and globally enabled.
    mode: AtomicU32,
    tpr: AtomicU32,
    svr: AtomicU32,
    ldr: AtomicU32,
    dfr: AtomicU32,
    esr: AtomicU32,
    /// Errors since the guest last wrote ESR.
    pending_errors: AtomicU32,
    icr_low: AtomicU32,
    icr_high: AtomicU32,
    /// 1 + the vector that came into service last; 0 once any vector has left service after that.
    newest_in_service: AtomicU32,
}

impl Lapic {
    /// Sets the state after power-on or INIT: xAPIC mode, disabled by software, nothing pending.
    pub fn reset(&self, id: u32) {
        for set in [&self.irr, &self.tmr, &self.isr] {
            set.clear();
        }
        for (word, value) in [
            (&self.id, id),
            (&self.mode, registers::BASE_ENABLED),
            (&self.tpr, 0),
            (&self.svr, registers::SVR_RESET),
            (&self.ldr, 0),
            (&self.dfr, u32::MAX),
            (&self.esr, 0),
            (&self.pending_errors, 0),
            (&self.icr_low, 0),
            (&self.icr_high, 0),
            (&self.newest_in_service, 0),
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
        self.mode.load(Relaxed) == registers::BASE_ENABLED | registers::BASE_X2APIC
    }

    /// Whether the APIC is in xAPIC mode: registers are in the page at [`MMIO_BASE`].
    pub fn is_xapic(&self) -> bool {
        self.mode.load(Relaxed) == registers::BASE_ENABLED
    }

    /// Whether the APIC accepts interrupts: globally enabled, and enabled by software (SVR bit 8).
    pub fn is_enabled(&self) -> bool {
        let on = self.mode.load(Relaxed) & registers::BASE_ENABLED != 0;
        on && self.svr.load(Relaxed) & registers::SVR_ENABLED != 0
    }
}

/// A set of vectors that several threads may change.
#[repr(C)]
#[derive(Debug, Default)]
pub struct VectorSet([AtomicU32; 8]);

impl VectorSet {
    #[inline(always)]
    fn word_and_bit(&self, vector: u8) -> (&AtomicU32, u32) {
        (&self.0[usize::from(vector >> 5)], 1 << (vector & 31))
    }

    /// Adds a vector; returns whether it was not in the set before.
    #[inline(always)]
    pub fn insert(&self, vector: u8) -> bool {
        let (word, bit) = self.word_and_bit(vector);
        word.fetch_or(bit, AcqRel) & bit == 0
    }

    /// Removes a vector; returns whether it was in the set.
    #[inline(always)]
    pub fn remove(&self, vector: u8) -> bool {
        let (word, bit) = self.word_and_bit(vector);
        word.fetch_and(!bit, AcqRel) & bit != 0
    }

    /// Whether a vector is in the set.
    #[inline(always)]
    pub fn contains(&self, vector: u8) -> bool {
        let (word, bit) = self.word_and_bit(vector);
        word.load(Acquire) & bit != 0
    }

    /// Whether the set is empty. Reads the words of the set one after the other.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Acquire) == 0)
    }

    /// The highest vector in the set, which has the highest priority.
    #[inline(always)]
    pub fn highest(&self) -> Option<u8> {
        const BASES: [u8; 8] = [224, 192, 160, 128, 96, 64, 32, 0];
        for (word, base) in self.0.iter().rev().zip(BASES) {
            if let Some(bit) = word.load(Acquire).checked_ilog2() {
                return Some(base | (bit & 31) as u8);
            }
        }
        None
    }

    /// The word with the 32 vectors from `32 * index` on.
    #[inline(always)]
    pub fn word(&self, index: u8) -> u32 {
        self.0[usize::from(index & 7)].load(Acquire)
    }

    /// The vectors in the set. Each word is read once.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        (0..8).flat_map(|index| {
            let mut word = self.word(index);
            iter::from_fn(move || {
                let bit = word.checked_ilog2()?;
                word ^= 1 << bit;
                Some(index << 5 | (bit & 31) as u8)
            })
        })
    }

    /// Empties the set.
    pub fn clear(&self) {
        for word in &self.0 {
            word.store(0, Relaxed);
        }
    }
}
