//! The lookup in the [table](super) and its result: no signal, one signal, or a list of them. Each vCPU's thread runs
//! it, in its trap handler or on a direct call.

#![allow(unsafe_code)]

use core::fmt;

use super::layout::{BITS, MAX_CHAIN};
use super::{
    AddressBucket, BUCKETS, CELLS, CHUNKS, CODE, GROUP, Kind, ListChunk, MATCH, MatchBucket,
    OVERFLOWS, PAYLOAD, Table,
};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Acquire;

impl Table {
    /// Looks up the signals of a write of `len` bytes, `value` zero-extended, to `addr`; empty if no doorbell matches.
    ///
    /// If the width is not 1, 2, 4 or 8, only an any-length doorbell matches; no bus has writes of 16 bytes or more.
    /// The caller stays inside a read-side section while it uses the result.
    #[inline(always)]
    pub fn lookup(&self, kind: Kind, addr: u64, len: u32, value: u64) -> Signals<'_> {
        let (width, hash) = (cell_index(len), addr.wrapping_mul(GOLDEN_RATIO_64));
        let mut bucket = &self.buckets(kind)[top_bits(hash)];
        let mut probe = bucket.probe(addr, width);
        if !probe.holds {
            match self.overflowed_address(bucket, addr) {
                Some(next) => bucket = next,
                None => return Signals::new(self, 0),
            }
            probe = bucket.probe(addr, width);
        }
        let mut code = probe.code;
        if code & MATCH != 0 {
            let cell_offset = self.offset(&bucket.cells[width][probe.slot]);
            let bucket = &self.matches[match_bucket(hash, value)];
            let probe = bucket.probe(cell_offset, value);
            if probe.holds {
                code = probe.code;
            } else {
                let found = self.overflowed_match(bucket, cell_offset, value);
                code = if found == 0 { code } else { found };
            }
        }
        Signals::new(self, code & !MATCH)
    }

    /// Finds a later bucket of the chain that holds an address.
    ///
    /// Few lookups come here. Because it is a separate function, the others save no registers for its loop. In the stub
    /// it is inlined, because the stub's direct code must not call anything.
    #[cfg_attr(vmbell_stub_elf, inline(always))]
    #[cfg_attr(not(vmbell_stub_elf), cold, inline(never))]
    fn overflowed_address(&self, first: &AddressBucket, addr: u64) -> Option<&AddressBucket> {
        let mut next = first.next();
        // The bound stops a reader of corrupt memory; chains that the writer makes are far shorter.
        for _ in 0..OVERFLOWS {
            if next == 0 {
                break;
            }
            let bucket = &self.address_overflows[next & (OVERFLOWS - 1)];
            if bucket.probe(addr, 0).holds {
                return Some(bucket);
            }
            next = bucket.next();
        }
        None
    }

    /// Finds the code that a later bucket has for a value of the cell at `cell_offset`; 0 if no bucket has it. Inlined
    /// or not for the same reasons as above.
    #[cfg_attr(vmbell_stub_elf, inline(always))]
    #[cfg_attr(not(vmbell_stub_elf), cold, inline(never))]
    fn overflowed_match(&self, first: &MatchBucket, cell_offset: u32, value: u64) -> u32 {
        let mut next = first.next();
        for _ in 0..OVERFLOWS {
            if next == 0 {
                break;
            }
            let bucket = &self.match_overflows[next & (OVERFLOWS - 1)];
            let probe = bucket.probe(cell_offset, value);
            if probe.holds {
                return probe.code;
            }
            next = bucket.next();
        }
        0
    }

    #[inline(always)]
    fn buckets(&self, kind: Kind) -> &[AddressBucket; BUCKETS] {
        match kind {
            Kind::Pio => &self.pio,
            Kind::Mmio => &self.mmio,
            Kind::Hypercall => &self.hypercall,
        }
    }

    /// The first bucket of an address's chain.
    pub fn first_address(&self, kind: Kind, addr: u64) -> &AddressBucket {
        &self.buckets(kind)[top_bits(addr.wrapping_mul(GOLDEN_RATIO_64))]
    }

    /// The first bucket of the chain of a value at an address.
    pub fn first_match(&self, addr: u64, value: u64) -> &MatchBucket {
        &self.matches[match_bucket(addr.wrapping_mul(GOLDEN_RATIO_64), value)]
    }

    /// The offset of a word in the table, in bytes. The second hash table identifies cells by this offset. It is never
    /// 0 for a cell, because the table begins with values.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the table is smaller than 4 GiB"
    )]
    pub fn offset(&self, word: &AtomicU32) -> u32 {
        let table = core::ptr::from_ref(self).addr();
        core::ptr::from_ref(word).addr().wrapping_sub(table) as u32
    }
}

/// 2^64 divided by the golden ratio: spreads keys with any stride over the high bits.
const GOLDEN_RATIO_64: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bucket index for a value, given the hash of its address.
#[inline(always)]
const fn match_bucket(hash: u64, value: u64) -> usize {
    top_bits((hash ^ value).wrapping_mul(GOLDEN_RATIO_64))
}

/// The index of the cell for a width below 16.
#[inline(always)]
pub const fn cell_index(len: u32) -> usize {
    const CELL: [u8; 16] = [4, 0, 1, 4, 2, 4, 4, 4, 3, 4, 4, 4, 4, 4, 4, 4];
    let index = CELL[(len & 15) as usize] as usize;
    // SAFETY: no pointer is involved; all sixteen results are at most 4.
    unsafe { core::hint::assert_unchecked(index < CELLS) };
    index
}

#[inline(always)]
const fn top_bits(hash: u64) -> usize {
    (hash >> (u64::BITS - BITS)) as usize
}

/// The signals of a write, valid in the read-side section of the lookup that returned them.
///
/// A doorbell that is registered or removed while a list is walked may or may not be in the result; every other
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

    /// The signal number, if there is exactly one signal, without a list to walk or a payload to store.
    #[inline(always)]
    pub fn single(self) -> Option<u32> {
        if self.code & (GROUP | PAYLOAD) == 0 && self.code != 0 {
            Some(self.code - 1)
        } else {
            None
        }
    }

    /// All signal numbers; the number of a payload has the flag [`PAYLOAD`].
    #[inline(always)]
    pub fn iter(self) -> SignalsIter<'t> {
        let list = self.code & GROUP != 0;
        SignalsIter {
            table: self.table,
            single: if list { 0 } else { self.code },
            chunk: if list { (self.code & CODE) as usize } else { 0 },
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
/// It goes from the last word to the first, opposite to the order in which the writer fills them: a reader that sees a
/// signal also sees the signals that were there before it.
pub struct SignalsIter<'t> {
    table: &'t Table,
    single: u32,
    chunk: usize,
    word: usize,
    /// How many words may still be read, so that even the walk of a corrupt, circular list ends.
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
            let code = words[self.word & 15].load(Acquire) & (PAYLOAD | CODE);
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
