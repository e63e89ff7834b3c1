//! The result of a lookup: no signal, one signal, or a list of them.

use core::fmt;

use super::{CHUNKS, CODE, GROUP, ListChunk, Table, layout::MAX_CHAIN};
use crate::sync::Ordering::Acquire;

/// The signals of a write. Valid in the read-side section of the lookup that returned it.
///
/// A doorbell that is registered or removed while a list is walked may be in it or not; every other
/// doorbell is in it once.
#[derive(Clone, Copy)]
pub struct Signals<'t> {
    table: &'t Table,
    code: u32,
}

impl<'t> Signals<'t> {
    #[inline(always)]
    pub(super) fn new(table: &'t Table, code: u32) -> Self {
        Self { table, code }
    }

    /// Whether there is no signal: the write goes to the VMM.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.code == 0
    }

    /// The signal number, if there is exactly one and no list to walk.
    #[inline(always)]
    pub fn single(self) -> Option<u32> {
        if self.code & GROUP == 0 && self.code != 0 {
            Some(self.code - 1)
        } else {
            None
        }
    }

    /// All signal numbers.
    #[inline(always)]
    pub fn iter(self) -> SignalsIter<'t> {
        let list = self.code & GROUP != 0;
        let code = self.code & CODE;
        SignalsIter {
            table: self.table,
            single: if list { 0 } else { code },
            chunk: if list { code as usize } else { 0 },
            left: MAX_CHAIN * ListChunk::CODES,
            word: ListChunk::CODES,
        }
    }
}

impl fmt::Debug for Signals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'t> IntoIterator for Signals<'t> {
    type Item = u32;
    type IntoIter = SignalsIter<'t>;

    #[inline(always)]
    fn into_iter(self) -> SignalsIter<'t> {
        self.iter()
    }
}

/// Walks the signal numbers of one write.
///
/// It goes from the last word to the first, against the order in which the writer fills them: a reader that
/// sees a signal also sees those that were there before it.
pub struct SignalsIter<'t> {
    table: &'t Table,
    single: u32,
    chunk: usize,
    word: usize,
    /// Words that may still be read, so that the walk of a corrupt, circular list ends too.
    left: usize,
}

impl Iterator for SignalsIter<'_> {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.single != 0 {
            let signal = self.single.wrapping_sub(1);
            self.single = 0;
            return Some(signal);
        }
        while self.chunk != 0 && self.left != 0 {
            let words = &self.table.chunks[self.chunk & (CHUNKS - 1)].words;
            let code = words[self.word & 15].load(Acquire) & CODE;
            self.left = self.left.wrapping_sub(1);
            self.word = self.word.wrapping_sub(1) & 15;
            if self.word == 0 {
                self.chunk = words[0].load(Acquire) as usize;
                self.word = ListChunk::CODES;
            }
            if code != 0 {
                return Some(code.wrapping_sub(1));
            }
        }
        None
    }
}

impl fmt::Debug for SignalsIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalsIter").finish_non_exhaustive()
    }
}
