//! Words that free-running indices select, without a bounds check for each access.

#![allow(unsafe_code)]

use super::{Atomics, RingMemory, Words};
use crate::SetupError;

/// An array of words whose length is a power of two, indexed modulo that length.
#[derive(Debug)]
pub(crate) struct CyclicWords<A, M> {
    words: Words<A, M>,
    /// The number of words minus one; all its bits below the highest one are set.
    mask: u64,
}

impl<A: Atomics, M: RingMemory> CyclicWords<A, M> {
    /// Like [`Words::resolve`], but also fails if `size` is not a power of two.
    pub(crate) fn resolve(
        memory: &M,
        part: &'static str,
        addr: u64,
        size: u16,
        align: u64,
    ) -> Result<Self, SetupError> {
        if !size.is_power_of_two() {
            return Err(SetupError::Size { size });
        }
        let words = Words::resolve(memory, part, addr, usize::from(size), align)?;
        let mask = u64::from(size) - 1;
        Ok(Self { words, mask })
    }
}

impl<A, M: Clone> Clone for CyclicWords<A, M> {
    fn clone(&self) -> Self {
        let (words, mask) = (self.words.clone(), self.mask);
        Self { words, mask }
    }
}

impl<A, M> CyclicWords<A, M> {
    /// The word that an index selects.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> &A {
        #[expect(clippy::cast_possible_truncation, reason = "the mask has 15 bits")]
        let index = (index & self.mask) as usize;
        debug_assert!(index < self.all().len());
        // SAFETY: `resolve` made the mask the number of words minus one, so the index is below that number.
        unsafe { self.all().get_unchecked(index) }
    }

    #[inline]
    pub(crate) fn all(&self) -> &[A] {
        self.words.all()
    }

    pub(crate) fn memory(&self) -> &M {
        self.words.memory()
    }
}
