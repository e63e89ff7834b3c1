//! Arrays of atomics in shared memory, each with the owner of the memory stored next to the pointer. [`CyclicWords`]
//! are selected by free-running indices and need no bounds check for each access.
//!
//! Under loom they are loom's own atomics, which clones share, because loom cannot track raw memory.

#![allow(unsafe_code)]

use std::fmt;
#[cfg(not(loom))]
use std::ptr::NonNull;

use super::RingMemory;
use crate::error::SetupError;

/// `A`s at consecutive addresses in a memory `M`.
#[cfg(not(loom))]
pub(crate) struct Words<A, M> {
    first: NonNull<A>,
    count: usize,
    /// Keeps the memory that `first` points to mapped.
    memory: M,
}

// SAFETY: `first` points into memory that `memory`, which is sent along, keeps alive. That memory is accessed only by
// shared references to `A`, which other threads may hold.
#[cfg(not(loom))]
unsafe impl<A: Sync, M: Send> Send for Words<A, M> {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl<A: Sync, M: Sync> Sync for Words<A, M> {}

#[cfg(not(loom))]
impl<A: Atomics, M: RingMemory> Words<A, M> {
    /// Finds `count` words at `addr`, aligned to `align` bytes and as `A` requires.
    pub(crate) fn resolve(
        memory: &M,
        part: &'static str,
        addr: u64,
        count: usize,
        align: u64,
    ) -> Result<Self, SetupError> {
        let len = count * size_of::<A>();
        let outside = SetupError::Outside { part, addr, len };
        let first = memory.resolve(addr, len).ok_or(outside)?.cast::<A>();
        if !addr.is_multiple_of(align) || !first.is_aligned() {
            return Err(SetupError::Misaligned { part, addr, align });
        }
        Ok(Self {
            first,
            count,
            memory: memory.clone(),
        })
    }
}

#[cfg(not(loom))]
impl<A, M: Clone> Clone for Words<A, M> {
    fn clone(&self) -> Self {
        Self {
            first: self.first,
            count: self.count,
            memory: self.memory.clone(),
        }
    }
}

#[cfg(not(loom))]
impl<A, M> Words<A, M> {
    #[inline]
    pub(crate) fn all(&self) -> &[A] {
        // SAFETY: `resolve` checked that `first` points to `count` aligned `A`s in memory that
        // `self.memory` keeps alive for as long as `self` lives. `A` consists of atomics, for which every
        // content is valid and which others may change at any time.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    /// The memory that contains the words.
    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

/// An array of `A` that clones share.
#[cfg(loom)]
pub(crate) struct Words<A, M> {
    words: std::sync::Arc<Vec<A>>,
    memory: M,
}

#[cfg(loom)]
impl<A, M: Clone> Clone for Words<A, M> {
    fn clone(&self) -> Self {
        let words = std::sync::Arc::clone(&self.words);
        let memory = self.memory.clone();
        Self { words, memory }
    }
}

#[cfg(loom)]
impl<A: Atomics, M: RingMemory> Words<A, M> {
    /// Makes new words; loom's words have no address.
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn resolve(
        memory: &M,
        _part: &'static str,
        _addr: u64,
        count: usize,
        _align: u64,
    ) -> Result<Self, SetupError> {
        Ok(Self {
            words: std::sync::Arc::new((0..count).map(|_| A::default()).collect()),
            memory: memory.clone(),
        })
    }
}

#[cfg(loom)]
impl<A, M> Words<A, M> {
    pub(crate) fn all(&self) -> &[A] {
        &self.words
    }

    pub(crate) fn memory(&self) -> &M {
        &self.memory
    }
}

impl<A, M> fmt::Debug for Words<A, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.all().len();
        f.debug_struct("Words").field("count", &count).finish()
    }
}

/// One word.
#[derive(Debug)]
pub(crate) struct Word<A, M>(Words<A, M>);

impl<A, M: Clone> Clone for Word<A, M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Atomics, M: RingMemory> Word<A, M> {
    pub(crate) fn resolve(memory: &M, part: &'static str, addr: u64) -> Result<Self, SetupError> {
        Words::resolve(memory, part, addr, 1, 1).map(Self)
    }
}

#[cfg(not(loom))]
impl<A, M> std::ops::Deref for Word<A, M> {
    type Target = A;

    #[inline]
    fn deref(&self) -> &A {
        // SAFETY: `Words::resolve` checked that `first` points to one aligned `A`, which the `memory` stored next to it
        // keeps alive as long as `self` lives; see also `Words::all`.
        unsafe { self.0.first.as_ref() }
    }
}

#[cfg(loom)]
impl<A, M> std::ops::Deref for Word<A, M> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0.words[0]
    }
}

/// Types that consist of atomics only.
///
/// # Safety
///
/// Any content of the memory is a valid value, and the type has no padding.
pub(crate) unsafe trait Atomics: Default {}

macro_rules! atomics {
    ($($atomic:ty),*) => {
        $(
            // SAFETY: an atomic integer, or an array or a `repr(C)` struct of two such integers of the same size.
            unsafe impl Atomics for $atomic {}
        )*
    };
}

atomics!(
    std::sync::atomic::AtomicU8,
    crate::sync::AtomicU16,
    crate::sync::AtomicU32,
    [crate::sync::AtomicU32; 2],
    crate::descriptor::Descriptor
);

/// `count` `A`s at `addr`, for as long as `memory` is borrowed; `None` unless all of them are memory and aligned.
pub(crate) fn slice<A: Atomics, M: RingMemory>(
    memory: &M,
    addr: u64,
    count: usize,
) -> Option<&[A]> {
    let len = count.checked_mul(size_of::<A>())?;
    let first = memory.resolve(addr, len)?.cast::<A>();
    if !first.is_aligned() {
        return None;
    }
    // SAFETY: `resolve` found `count` aligned `A`s at `first`, which `memory`, borrowed for as
    // long as the slice, keeps alive. `A` consists of atomics, for which every content is valid.
    Some(unsafe { std::slice::from_raw_parts(first.as_ptr(), count) })
}

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
