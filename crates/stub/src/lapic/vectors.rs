//! A set of vectors: 256 bits in eight words, as the APIC's registers show them.

use core::iter;

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

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

    /// Whether the set is empty; reads its words one after the other.
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

    /// The vectors in the set; each word is read once.
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
