//! The lookup in the [table](super). Each vCPU's thread runs it, in its trap handler or on a direct call.

#![allow(unsafe_code)]

use super::{
    AddressBucket, AtomicU32, BUCKETS, CELLS, CODE, GROUP, Kind, MATCH, MatchBucket, OVERFLOWS,
    Signals, Table, layout::BITS,
};

impl Table {
    /// The signals of a write of `len` bytes, `value` zero-extended, to `addr`; empty if no doorbell matches.
    ///
    /// Only an any-length doorbell matches a width other than 1, 2, 4 or 8; no bus has writes of 16 bytes
    /// and more. The caller is inside a read-side section for as long as it uses the result.
    #[inline(always)]
    pub fn lookup(&self, kind: Kind, addr: u64, len: u32, value: u64) -> Signals<'_> {
        let (width, hash) = (cell_index(len), addr.wrapping_mul(GOLDEN_RATIO_64));
        let mut bucket = &self.buckets(kind)[top_bits(hash)];
        let mut probe = bucket.probe(addr, width);
        if !probe.holds {
            // The bound stops a reader of corrupt memory; no chain that the writer makes comes near it.
            let mut left = OVERFLOWS;
            while !probe.holds {
                let next = bucket.next();
                if next == 0 || left == 0 {
                    return Signals::new(self, 0);
                }
                left -= 1;
                bucket = &self.address_overflows[next & (OVERFLOWS - 1)];
                probe = bucket.probe(addr, width);
            }
        }
        let mut code = probe.code;
        if code & MATCH != 0 {
            let cell_offset = self.cell_offset(&bucket.cells[width][probe.slot]);
            let found = self.match_code(cell_offset, hash, value);
            code = if found == 0 { code } else { found };
        }
        Signals::new(self, code & (GROUP | CODE))
    }

    /// The code of a value of the cell at `cell_offset`; 0 if there is none.
    #[inline(always)]
    fn match_code(&self, cell_offset: u32, hash: u64, value: u64) -> u32 {
        let mut bucket = &self.matches[match_bucket(hash, value)];
        let mut probe = bucket.probe(cell_offset, value);
        if !probe.holds {
            let mut left = OVERFLOWS;
            while !probe.holds {
                let next = bucket.next();
                if next == 0 || left == 0 {
                    return 0;
                }
                left -= 1;
                bucket = &self.match_overflows[next & (OVERFLOWS - 1)];
                probe = bucket.probe(cell_offset, value);
            }
        }
        probe.code
    }

    #[inline(always)]
    fn buckets(&self, kind: Kind) -> &[AddressBucket; BUCKETS] {
        match kind {
            Kind::Pio => &self.pio,
            Kind::Mmio => &self.mmio,
            Kind::Hypercall => &self.hypercall,
        }
    }

    /// The bucket with which the chain of an address starts.
    pub fn first_address(&self, kind: Kind, addr: u64) -> &AddressBucket {
        &self.buckets(kind)[top_bits(addr.wrapping_mul(GOLDEN_RATIO_64))]
    }

    /// The bucket with which the chain of a value at an address starts.
    pub fn first_match(&self, addr: u64, value: u64) -> &MatchBucket {
        &self.matches[match_bucket(addr.wrapping_mul(GOLDEN_RATIO_64), value)]
    }

    /// The number by which the second hash table knows a cell: its offset in the table, in bytes. It is never 0,
    /// as the table begins with an address.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the table is smaller than 4 GiB"
    )]
    pub fn cell_offset(&self, cell: &AtomicU32) -> u32 {
        let table = core::ptr::from_ref(self).addr();
        core::ptr::from_ref(cell).addr().wrapping_sub(table) as u32
    }
}

/// 2^64 divided by the golden ratio: spreads keys at any stride over the high bits.
const GOLDEN_RATIO_64: u64 = 0x9e37_79b9_7f4a_7c15;

/// The index of the bucket of a value, given the hash of its address.
#[inline(always)]
const fn match_bucket(hash: u64, value: u64) -> usize {
    top_bits((hash ^ value).wrapping_mul(GOLDEN_RATIO_64))
}

/// The index of the cell for a width below 16.
#[inline(always)]
pub const fn cell_index(len: u32) -> usize {
    // One hexadecimal digit for each width.
    let index = (0x4444_4443_4442_4104_u64 >> (len.wrapping_mul(4) & 63) & 7) as usize;
    // SAFETY: no pointer is involved; none of the sixteen digits is above 4.
    unsafe { core::hint::assert_unchecked(index < CELLS) };
    index
}

#[inline(always)]
const fn top_bits(hash: u64) -> usize {
    (hash >> (u64::BITS - BITS)) as usize
}
