//! The memory that a guest program starts from: 64-bit mode with the low 4 GiB identity-mapped.
//!
//! All of it is in one memory slot below RAM, which is not part of
//! [`Vm::memory`](crate::Vm::memory): the hypercall page, page tables, descriptor tables, and the
//! exception handlers that record a fault for [`last_words`](super::last_words) (Intel SDM vol. 3, 4.5, 6.14,
//! 8.7). Filled by the thread that creates the guest.

mod code;

pub use code::with_hypercall;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vmbell_core::addresses::HYPERCALL_PAGE;

use super::super::memory;
use super::super::system::System;
use super::cpuid;
use crate::{Error, VmConfig};

/// The maximum number of vCPUs that the slot has room for.
pub const VCPUS: u32 = 64;

/// The first address of the slot: the hypercall page.
const START: u64 = HYPERCALL_PAGE;
const END: u64 = 0xb_0000;

/// The top-level page table.
pub const PML4: u64 = 0x2_0000;
const PDPT: u64 = 0x2_1000;
const PAGE_DIRECTORIES: u64 = 0x2_2000;
/// The GDT: null, code and data segments.
pub const GDT: u64 = 0x2_6000;
const HANDLERS: u64 = 0x2_8000;
/// A task state segment for each vCPU, [`TSS_SIZE`] apart.
pub const TSS: u64 = 0x2_9000;
/// Distance between two task state segments, in bytes.
pub const TSS_SIZE: usize = 128;
/// A stack for the exception handlers of each vCPU, [`STACK_SIZE`] apart.
const STACKS: u64 = 0x2_b000;
const STACK_SIZE: u64 = 256;
/// Two pages for each vCPU: its IDT, and the code that its interrupt gates lead to.
const VECTORS: u64 = 0x3_0000;
const VECTORS_SIZE: u64 = 0x2000;
const THUNKS: u64 = 0x1000;

const _: () = assert!(TSS + TSS_SIZE as u64 * VCPUS as u64 <= STACKS);
const _: () = assert!(STACKS + STACK_SIZE * VCPUS as u64 <= VECTORS);
const _: () = assert!(VECTORS + VECTORS_SIZE * VCPUS as u64 <= END);

/// Size of the GDT in bytes.
pub const GDT_SIZE: u16 = 3 * 8;
/// Size of the IDT in bytes.
pub const IDT_SIZE: u16 = 256 * 16;
/// The selector of the code segment.
pub const CODE_SELECTOR: u16 = 8;
/// The selector of the data segment.
pub const DATA_SELECTOR: u16 = 16;

/// Returns the top of the exception handlers' stack for the vCPU with this index.
pub const fn stack_top(index: u32) -> u64 {
    STACKS + STACK_SIZE * (index as u64 + 1)
}

/// Makes the memory of the slot and fills it.
pub fn area(system: &System, config: &VmConfig) -> Result<GuestMemoryMmap, Error> {
    let vmmcall = cpuid::has_vmmcall(&system.host.cpuid);
    let area = memory::map(START, END - START)?;
    let parts = [
        (HYPERCALL_PAGE, code::hypercall_page(vmmcall)),
        (PML4, page_tables()),
        (GDT, segments()),
        (HANDLERS, code::handlers().to_vec()),
        (TSS, task_states()),
    ];
    for (address, bytes) in parts {
        write(&area, address, &bytes)?;
    }
    let exceptions = exception_gates();
    for index in 0..config.vcpus {
        write(&area, gates(index), &exceptions)?;
    }
    Ok(area)
}

/// Returns the address of the IDT of the vCPU with this index.
pub const fn gates(index: u32) -> u64 {
    VECTORS + VECTORS_SIZE * index as u64
}

/// Makes all external interrupts of a vCPU enter at `rip`, with the vector pushed below the interrupt frame.
pub fn set_interrupt_handler(area: &GuestMemoryMmap, index: u32, rip: u64) -> Result<(), Error> {
    let (gates, thunks) = (gates(index), gates(index) + THUNKS);
    write(area, thunks, &code::interrupt_thunks(rip))?;
    let first = 16 * code::EXCEPTIONS as u64;
    write(area, gates + first, &interrupt_gates(thunks))
}

fn write(area: &GuestMemoryMmap, address: u64, bytes: &[u8]) -> Result<(), Error> {
    let written = area.write_slice(bytes, GuestAddress(address));
    written.map_err(|error| Error::System {
        operation: "fill the area that guests start from",
        source: std::io::Error::other(error),
    })
}

/// Flags of a page table entry: present, writable, accessed and dirty, so that the CPU has no flag to write back.
const ENTRY: u64 = 0x63;
/// Flag of a page table entry that maps a 2 MiB page instead of pointing to a table.
const LARGE: u64 = 0x80;
const GIB_COVERED: u64 = 4;

/// Returns the page tables from [`PML4`] on: one table of each upper level, then a page directory for each GiB.
pub fn page_tables() -> Vec<u8> {
    const ENTRIES: u64 = 512;
    let mut bytes = Vec::new();
    let mut table = |entries: &mut dyn Iterator<Item = u64>| {
        let mut left = ENTRIES;
        for entry in entries {
            bytes.extend(entry.to_le_bytes());
            left -= 1;
        }
        for _ in 0..left {
            bytes.extend(0_u64.to_le_bytes());
        }
    };
    const _: () = assert!(PDPT == PML4 + 0x1000 && PAGE_DIRECTORIES == PDPT + 0x1000);
    table(&mut std::iter::once(PDPT | ENTRY));
    table(&mut (0..GIB_COVERED).map(|gib| (PAGE_DIRECTORIES + gib * 0x1000) | ENTRY));
    for gib in 0..GIB_COVERED {
        table(&mut (0..ENTRIES).map(|page| (gib << 30 | page << 21) | ENTRY | LARGE));
    }
    bytes
}

/// Returns the GDT: a null, a 64-bit code and a data segment.
pub fn segments() -> Vec<u8> {
    const CODE: u64 = 0x00af_9b00_0000_ffff;
    const DATA: u64 = 0x00cf_9300_0000_ffff;
    [0, CODE, DATA]
        .iter()
        .flat_map(|segment| segment.to_le_bytes())
        .collect()
}

/// Returns an interrupt gate for each exception, which switches to the exception handlers' stack.
pub fn exception_gates() -> Vec<u8> {
    const STACK: u64 = 1;
    let gate = |vector| gate(HANDLERS + code::handler(vector), STACK);
    (0..code::EXCEPTIONS as u64).flat_map(gate).collect()
}

/// Returns an interrupt gate for each other vector, which keeps the current stack.
pub fn interrupt_gates(thunks: u64) -> Vec<u8> {
    let gate = |vector| gate(thunks + code::thunk(vector), 0);
    (code::EXCEPTIONS as u64..256).flat_map(gate).collect()
}

fn gate(handler: u64, stack: u64) -> [u8; 16] {
    const PRESENT_INTERRUPT_GATE: u64 = 0x8e00;
    let low = handler & 0xffff
        | u64::from(CODE_SELECTOR) << 16
        | (PRESENT_INTERRUPT_GATE | stack) << 32
        | (handler >> 16 & 0xffff) << 48;
    let high = u128::from(handler >> 32) << 64;
    (high | u128::from(low)).to_le_bytes()
}

/// Returns a task state segment for each vCPU. Only its first entry of the interrupt stack table is used.
pub fn task_states() -> Vec<u8> {
    const INTERRUPT_STACK_1: usize = 36;
    const IO_MAP_BASE: usize = 102;
    let mut bytes = vec![0; TSS_SIZE * VCPUS as usize];
    for (index, state) in (0..).zip(bytes.chunks_exact_mut(TSS_SIZE)) {
        state[INTERRUPT_STACK_1..][..8].copy_from_slice(&stack_top(index).to_le_bytes());
        state[IO_MAP_BASE..][..2].copy_from_slice(&104_u16.to_le_bytes());
    }
    bytes
}
