//! The state of a local APIC, its modes, and sets of vectors.

use core::iter;

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

/// The lowest vector of an interrupt; lower vectors are exceptions.
pub const FIRST_VECTOR: u8 = 16;

/// APIC base register: x2APIC mode.
pub(super) const BASE_X2APIC: u32 = 1 << 10;
/// APIC base register: the APIC is on (global enable).
pub(super) const BASE_ENABLED: u32 = 1 << 11;

/// SVR after a reset: disabled.
pub(super) const SVR_RESET: u32 = 0xff;
/// SVR: enabled by software.
pub(super) const SVR_ENABLED: u32 = 1 << 8;
/// DFR: the model of logical destinations. These are its only writable bits; the others read as 1.
pub(super) const DFR_MODEL: u32 = 0xf000_0000;

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
    pub(super) isr: VectorSet,
    /// The APIC ID.
    pub(super) id: AtomicU32,
    /// Bits 10 and 11 of the APIC base register: x2APIC mode, and globally enabled.
    pub(super) mode: AtomicU32,
    pub(super) tpr: AtomicU32,
    pub(super) svr: AtomicU32,
    pub(super) ldr: AtomicU32,
    pub(super) dfr: AtomicU32,
    pub(super) esr: AtomicU32,
    /// Errors since the guest last wrote ESR.
    pub(super) pending_errors: AtomicU32,
    pub(super) icr_low: AtomicU32,
    pub(super) icr_high: AtomicU32,
    /// 1 + the vector that came into service last; 0 once any vector has left service after that.
    pub(super) newest_in_service: AtomicU32,
}

impl Lapic {
    /// Sets the state after power-on or INIT: xAPIC mode, disabled by software, nothing pending.
    pub fn reset(&self, id: u32) {
        for set in [&self.irr, &self.tmr, &self.isr] {
            set.clear();
        }
        for (word, value) in [
            (&self.id, id),
            (&self.mode, BASE_ENABLED),
            (&self.tpr, 0),
            (&self.svr, SVR_RESET),
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
        self.mode.load(Relaxed) == BASE_ENABLED | BASE_X2APIC
    }

    /// Whether the APIC is in xAPIC mode: registers are in the page at [`MMIO_BASE`](super::MMIO_BASE).
    pub fn is_xapic(&self) -> bool {
        self.mode.load(Relaxed) == BASE_ENABLED
    }

    /// The logical destination register.
    pub(super) fn ldr(&self) -> u32 {
        self.ldr.load(Relaxed)
    }

    /// Whether logical destinations use the flat model, not the cluster model (DFR).
    pub(super) fn is_flat_model(&self) -> bool {
        self.dfr.load(Relaxed) & DFR_MODEL == DFR_MODEL
    }

    /// Whether the APIC accepts interrupts: globally enabled, and enabled by software (SVR bit 8).
    pub fn is_enabled(&self) -> bool {
        let on = self.mode.load(Relaxed) & BASE_ENABLED != 0;
        on && self.svr.load(Relaxed) & SVR_ENABLED != 0
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
