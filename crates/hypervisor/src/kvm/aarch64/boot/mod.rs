//! The memory that a guest program starts from: the low 4 GiB identity-mapped, in EL1.
//!
//! All of it is in one memory slot below RAM, which is not part of [`Vm::memory`](crate::Vm::memory): the hypercall
//! page, page tables, and for each vCPU a page of exception vectors, with the words that record a fault for
//! [`last_words`](super::last_words). Filled by the thread that creates the guest.

mod code;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_core::addresses::HYPERCALL_PAGE;

use super::super::memory;
use super::super::system::System;
use crate::{Error, VmConfig};

/// The maximum number of vCPUs that the slot has room for.
pub const VCPUS: u32 = 64;

/// The first address of the slot: the hypercall page.
const START: u64 = HYPERCALL_PAGE;
const END: u64 = 0xb_0000;

/// The level 1 table, whose entries cover 1 GiB each.
pub const LEVEL_1: u64 = 0x2_0000;
/// The level 2 tables, one for each GiB.
const LEVEL_2: u64 = 0x2_1000;
/// A page for each vCPU: its vectors, and after them the words that record a fault.
const VECTORS: u64 = 0x3_0000;
const VECTORS_SIZE: u64 = 0x1000;
const _: () = assert!(VECTORS + VECTORS_SIZE * VCPUS as u64 <= END);

/// Returns the address of the exception vectors of the vCPU with this index.
pub const fn vectors(index: u32) -> u64 {
    VECTORS + VECTORS_SIZE * index as u64
}

/// Returns the address of the words that this vCPU's vectors write.
pub const fn words(index: u32) -> u64 {
    vectors(index) + code::WORDS as u64
}

/// Makes the memory of the slot and fills it.
pub fn area(_: &System, config: &VmConfig) -> Result<GuestMemoryMmap, Error> {
    let area = memory::map(START, END - START)?;
    let ram_end = config.ram_base + config.ram_size;
    write(&area, HYPERCALL_PAGE, code::hypercall_page())?;
    write(&area, LEVEL_1, &page_tables(ram_end))?;
    for index in 0..config.vcpus {
        write(&area, vectors(index), code::vectors())?;
    }
    Ok(area)
}

/// Makes all interrupts of a vCPU enter at `pc`, with `x16` and `x17` on the stack.
pub fn set_interrupt_handler(area: &GuestMemoryMmap, index: u32, pc: u64) -> Result<(), Error> {
    write(
        area,
        vectors(index) + code::HANDLER as u64,
        &pc.to_le_bytes(),
    )
}

fn write(area: &GuestMemoryMmap, address: u64, bytes: &[u8]) -> Result<(), Error> {
    let written = area.write_slice(bytes, GuestAddress(address));
    written.map_err(|error| Error::System {
        operation: "fill the area that guests start from",
        source: std::io::Error::other(error),
    })
}

const GIB_COVERED: u64 = 4;
const ENTRIES: u64 = 512;
const BLOCK: u64 = 2 << 20;

/// A page table entry that points to a table.
const TABLE: u64 = 3;
/// A page table entry that maps a block: valid, accessed, for EL1.
const MAPPED: u64 = 1 | 1 << 10;
/// The memory type: an index of MAIR_EL1, and the shareability of Normal memory.
const NORMAL: u64 = 1 << 2 | 3 << 8;
const DEVICE: u64 = 0;
/// EL1 cannot execute code there.
const NO_CODE: u64 = 1 << 53;

/// Returns the page tables from [`LEVEL_1`] on: identity-mapped blocks of 2 MiB. Blocks from 0 to `ram_end`, which have
/// memory, are Normal; the rest is Device.
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
