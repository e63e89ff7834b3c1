//! Guest-physical memory outside the image: every address is its own virtual address. The low 4 GiB are mapped from the
//! start, and everything else (a BAR, a table) is mapped on demand.

#![allow(unsafe_code)]

use core::arch::asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::cpu::cpuid;

const LOW_END: u64 = 1 << 32;
const LARGE_PAGE: u64 = 1 << 21;
const PRESENT_WRITABLE: u64 = 3;
const LARGE: u64 = 1 << 7;
const TABLES: usize = 16;

#[repr(C, align(4096))]
struct Table([AtomicU64; 512]);

static POOL: [Table; TABLES] = [const { Table([const { AtomicU64::new(0) }; 512]) }; TABLES];
static USED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    static pml4: Table;
    static image_start: u8;
    static image_end: u8;
}

/// Returns whether a range overlaps the image, whose memory belongs to Rust.
fn is_ours(address: u64, len: u64) -> bool {
    let (start, end) = (&raw const image_start as u64, &raw const image_end as u64);
    address < end && address + len > start
}

/// Returns the table that an entry points to, and makes a table if the entry is empty.
fn next(entry: &AtomicU64) -> Option<&'static Table> {
    let value = entry.load(Relaxed);
    if value & 1 == 0 {
        let table = POOL.get(USED.fetch_add(1, Relaxed))?;
        entry.store(
            core::ptr::from_ref(table) as u64 | PRESENT_WRITABLE,
            Relaxed,
        );
        return Some(table);
    }
    let address = value & 0x000f_ffff_ffff_f000;
    // SAFETY: entries of the upper levels point to tables of boot.S or of the pool, all of which are static.
    Some(unsafe { &*(address as *const Table) })
}

fn index(address: u64, level: u32) -> usize {
    (address >> (12 + 9 * level) & 511) as usize
}

/// The end of the CPU's physical addresses: in a page table, a bit above them is reserved and causes a fault. The end
/// is in the lower half of the virtual addresses.
fn address_end() -> u64 {
    const LAST: u32 = 0x8000_0000;
    const ADDRESSES: u32 = LAST + 8;
    let bits = if cpuid(LAST, 0)[0] >= ADDRESSES {
        cpuid(ADDRESSES, 0)[0] & 0xff
    } else {
        36
    };
    1 << bits.clamp(32, 46)
}

/// Maps a range unless it is mapped. Returns `None` if no virtual address reaches the range, or if no page table is
/// left.
fn map(address: u64, len: u64) -> Option<()> {
    let end = address.checked_add(len)?;
    if end <= LOW_END {
        return Some(());
    }
    if end > address_end() || len > 64 * LARGE_PAGE {
        return None;
    }
    let mut page = address & !(LARGE_PAGE - 1);
    while page < end {
        if page >= LOW_END {
            // SAFETY: this is boot.S's table, which lives forever and is changed only by atomics.
            let top = unsafe { &pml4 };
            let pdpt = next(&top.0[index(page, 3)])?;
            let directory = next(&pdpt.0[index(page, 2)])?;
            let entry = &directory.0[index(page, 1)];
            if entry.load(Relaxed) & 1 == 0 {
                entry.store(page | PRESENT_WRITABLE | LARGE, Relaxed);
                // SAFETY: this drops a stale translation.
                unsafe { asm!("invlpg [{}]", in(reg) page, options(nostack)) };
            }
        }
        page += LARGE_PAGE;
    }
    Some(())
}

/// Copies bytes that a VMM wrote, and reads each once. `None` if they cannot be mapped.
pub fn copy(address: u64, to: &mut [u8]) -> Option<()> {
    map(address, to.len() as u64)?;
    for (offset, byte) in (0..).zip(to) {
        // SAFETY: mapped above; any byte is valid, and volatile because others may write it.
        *byte = unsafe { ((address + offset) as *const u8).read_volatile() };
    }
    Some(())
}

/// Copies one little-endian number.
pub fn read_u32(address: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    copy(address, &mut bytes)?;
    Some(u32::from_le_bytes(bytes))
}

/// Like `read_u32`, with eight bytes.
pub fn read_u64(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    copy(address, &mut bytes)?;
    Some(u64::from_le_bytes(bytes))
}

/// Registers of a device: a range outside the image, so that writes cannot harm Rust's memory.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    address: u64,
    len: u64,
}

macro_rules! accessors {
    ($read:ident, $write:ident, $type:ty) => {
        /// Reads a register; returns all ones if the register is outside.
        #[inline]
        pub fn $read(self, offset: u64) -> $type {
            let Some(place) = self.place(offset, size_of::<$type>() as u64) else {
                return <$type>::MAX;
            };
            // SAFETY: `place` is mapped, and any value is valid.
            unsafe { (place as *const $type).read_volatile() }
        }

        /// Writes a register; does nothing if the register is outside.
        #[inline]
        pub fn $write(self, offset: u64, value: $type) {
            if let Some(place) = self.place(offset, size_of::<$type>() as u64) {
                // SAFETY: `place` is mapped, and does not belong to the image.
                unsafe { (place as *mut $type).write_volatile(value) };
            }
        }
    };
}

impl Registers {
    /// Maps the registers at an address; `None` if they cannot be mapped, or overlap the image.
    pub fn new(address: u64, len: u64) -> Option<Self> {
        map(address, len)?;
        (!is_ours(address, len)).then_some(Self { address, len })
    }

    /// The address of the registers.
    pub fn address(self) -> u64 {
        self.address
    }

    #[inline]
    fn place(self, offset: u64, size: u64) -> Option<u64> {
        let aligned = (self.address + offset).is_multiple_of(size);
        (aligned && offset.checked_add(size)? <= self.len).then_some(self.address + offset)
    }

    accessors!(read8, write8, u8);
    accessors!(read16, write16, u16);
    accessors!(read32, write32, u32);
}
