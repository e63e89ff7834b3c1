//! Builds page tables, segments, gates and task state segments as bytes, on the thread that creates the guest.

use super::{CODE_SELECTOR, PAGE_DIRECTORIES, PDPT, PML4, TSS_SIZE, VCPUS, code, stack_top};

/// Flags of an entry: present, writable, accessed and dirty, so that the CPU has no flag to write back.
const ENTRY: u64 = 0x63;
/// Flag of an entry that maps a page of 2 MiB instead of pointing to a table.
const LARGE: u64 = 0x80;
const GIB_COVERED: u64 = 4;

/// The page tables from [`PML4`] on: one table of each upper level, then a page directory for each GiB.
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

/// The GDT: a null, a 64-bit code and a data segment.
pub fn segments() -> Vec<u8> {
    const CODE: u64 = 0x00af_9b00_0000_ffff;
    const DATA: u64 = 0x00cf_9300_0000_ffff;
    [0, CODE, DATA]
        .iter()
        .flat_map(|segment| segment.to_le_bytes())
        .collect()
}

/// An interrupt gate for each exception, which switches to the exception handlers' stack.
pub fn exception_gates() -> Vec<u8> {
    const STACK: u64 = 1;
    let gate = |vector| gate(code::handler(vector), STACK);
    (0..code::EXCEPTIONS as u64).flat_map(gate).collect()
}

/// An interrupt gate for each other vector, which keeps the current stack.
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

/// A task state segment for each vCPU. Of it only the first entry of the interrupt stack table is used.
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
