//! The structures of Linux's 32-bit boot protocol: the setup header of a bzImage and the boot parameters ("zero page"),
//! which contain a copy of it (Linux `Documentation/arch/x86/boot.rst` and `zero-page.rst`, `struct boot_params`).
//! Fields have Linux's names. A field that a loader without firmware never sets is named `_` and its offset.

use std::mem::offset_of;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Offset of the setup header, both in the file and in the boot parameters.
pub(super) const SETUP_HEADER: usize = 0x1f1;

/// `struct setup_header`. Fields after the end of a file's header are 0.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub(super) setup_sects: u8,
    _0x1f2: [u8; 14],
    /// A jump over the header, whose second byte is the distance from [`magic`](Self::magic) to the header's end.
    pub(super) jump: [u8; 2],
    pub(super) magic: [u8; 4],
    pub(super) version: U16,
    _0x208: [u8; 8],
    pub(super) type_of_loader: u8,
    pub(super) loadflags: u8,
    _0x212: [u8; 6],
    pub(super) ramdisk_image: U32,
    pub(super) ramdisk_size: U32,
    _0x220: [u8; 8],
    pub(super) cmd_line_ptr: U32,
    pub(super) initrd_addr_max: U32,
    _0x230: [u8; 8],
    pub(super) cmdline_size: U32,
    _0x23c: [u8; 28],
    pub(super) pref_address: U64,
    pub(super) init_size: U32,
    /// Fields of later versions, up to the next field of the boot parameters.
    _0x264: [u8; 44],
}

/// The end of the last field of version 2.10, as an offset in the file.
pub(super) const HEADER_END: usize = SETUP_HEADER + offset_of!(Header, _0x264);

/// `struct boot_e820_entry`: a range of addresses.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct MapEntry {
    pub(super) addr: U64,
    pub(super) size: U64,
    pub(super) kind: U32,
}

/// `struct boot_params`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct BootParams {
    _0x000: [u8; 0x70],
    pub(super) acpi_rsdp_addr: U64,
    _0x078: [u8; 0x170],
    pub(super) e820_entries: u8,
    _0x1e9: [u8; 8],
    pub(super) hdr: Header,
    _0x290: [u8; 0x40],
    pub(super) e820_table: [MapEntry; 128],
    _0xcd0: [u8; 0x330],
}

// The offsets that the protocol defines.
const _: () = {
    assert!(offset_of!(BootParams, acpi_rsdp_addr) == 0x070);
    assert!(offset_of!(BootParams, e820_entries) == 0x1e8);
    assert!(offset_of!(BootParams, hdr) == SETUP_HEADER);
    assert!(offset_of!(BootParams, e820_table) == 0x2d0);
    assert!(size_of::<BootParams>() == 4096);
    assert!(HEADER_END == 0x264);
};
