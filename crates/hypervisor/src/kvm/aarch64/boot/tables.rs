//! Builds the page tables as bytes, on the thread that creates the guest (Arm DDI 0487, D8.3).

use super::{LEVEL_1, LEVEL_2};

const GIB_COVERED: u64 = 4;
const ENTRIES: u64 = 512;
const BLOCK: u64 = 2 << 20;

/// An entry that leads to a table.
const TABLE: u64 = 3;
/// An entry that maps a block: valid, accessed, for EL1.
const MAPPED: u64 = 1 | 1 << 10;
/// The kind of memory: an index of MAIR_EL1, and the shareability of Normal memory.
const NORMAL: u64 = 1 << 2 | 3 << 8;
const DEVICE: u64 = 0;
/// EL1 fetches no code there.
const NO_CODE: u64 = 1 << 53;

/// The page tables from [`LEVEL_1`] on: blocks of 2 MiB at their own addresses. A block that has memory, so from 0 to
/// `ram_end`, is Normal; all else is Device.
pub fn page_tables(ram_end: u64) -> Vec<u8> {
    const _: () = assert!(LEVEL_2 == LEVEL_1 + 8 * ENTRIES);
    let first = (0..ENTRIES).map(|gib| {
        if gib < GIB_COVERED {
            (LEVEL_2 + gib * 8 * ENTRIES) | TABLE
        } else {
            0
        }
    });
    let blocks = (0..GIB_COVERED * ENTRIES).map(|block| {
        let address = block * BLOCK;
        let kind = if address < ram_end {
            NORMAL
        } else {
            DEVICE | NO_CODE
        };
        address | kind | MAPPED
    });
    first.chain(blocks).flat_map(u64::to_le_bytes).collect()
}
