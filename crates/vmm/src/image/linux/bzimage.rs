//! bzImage: the setup header, and the boot parameters that the kernel's 32-bit entry point finds in ESI (Linux
//! `Documentation/arch/x86/boot.rst`).

use std::fmt;
use std::mem::offset_of;

use object::ReadRef;
use zerocopy::{FromZeros, IntoBytes};

use super::boot_params::{BootParams, HEADER_END, Header, MapEntry, SETUP_HEADER};
use super::{INITRD_LAST, Initrd};
use crate::image::error::ImageErrorKind;
use crate::image::low_memory::{Area, HIGH, memory_map};
use crate::image::{Boot, Parsed, Protocol, Segment, len};

const MAGIC: [u8; 4] = *b"HdrS";
/// File offsets of the magic number, and of the byte with the distance from the magic number to the header's end.
const MAGIC_AT: usize = SETUP_HEADER + offset_of!(Header, magic);
const HEADER_LEN_AT: usize = MAGIC_AT - 1;
/// The first version that says where the kernel unpacks itself and how much memory that takes (Linux 2.6.31).
const VERSION_MIN: u16 = 0x020a;
/// The kernel's 32-bit part belongs at 1 MiB.
const LOADED_HIGH: u8 = 1;
/// The loader has no assigned number.
const UNDEFINED_LOADER: u8 = 0xff;
const SECTOR: u64 = 512;

/// The setup header of a file.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::image) struct SetupHeader(Header);

impl SetupHeader {
    /// Finds the header, if the file has one.
    pub(in crate::image) fn find(file: &[u8]) -> Option<Self> {
        if !file.get(MAGIC_AT..)?.starts_with(&MAGIC) {
            return None;
        }
        let end = MAGIC_AT + usize::from(file[HEADER_LEN_AT]);
        let bytes = file.get(SETUP_HEADER..end.max(HEADER_END))?;
        let mut header = Header::new_zeroed();
        let len = bytes.len().min(size_of::<Header>());
        header.as_mut_bytes()[..len].copy_from_slice(&bytes[..len]);
        Some(Self(header))
    }

    /// The end of the memory that the kernel takes to unpack itself.
    pub(in crate::image) fn end(&self) -> u64 {
        let Self(header) = self;
        let size = u64::from(header.init_size.get());
        header.pref_address.get().saturating_add(size)
    }

    /// The highest address for an initrd.
    pub(in crate::image) fn initrd_last(&self) -> u64 {
        match self.0.initrd_addr_max.get() {
            0 => INITRD_LAST,
            last => last.into(),
        }
    }

    /// Makes the boot parameters, with the command line after them, for a machine whose RAM ends at `ram`.
    pub(in crate::image) fn boot_params(
        &self,
        boot: &Boot,
        ram: u64,
        initrd: Option<Initrd>,
    ) -> Result<Vec<u8>, ImageErrorKind> {
        let most = usize::try_from(self.0.cmdline_size.get()).unwrap_or(usize::MAX);
        boot.check_arguments(most)?;
        let mut area = Area::with(size_of::<BootParams>());
        let mut params = BootParams::new_zeroed();
        params.hdr = self.0.clone();
        params.hdr.type_of_loader = UNDEFINED_LOADER;
        params.hdr.cmd_line_ptr = area.push_text(&boot.arguments).into();
        if let Some(Initrd { address, len }) = initrd {
            let low = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
            params.hdr.ramdisk_image = low(address).into();
            params.hdr.ramdisk_size = low(len).into();
        }
        params.acpi_rsdp_addr = u64::from(vmbell_devices::ACPI_BASE).into();
        let map = memory_map(ram);
        params.e820_entries = u8::try_from(map.len()).unwrap_or(u8::MAX);
        for (entry, (base, len, usage)) in params.e820_table.iter_mut().zip(map) {
            *entry = MapEntry {
                addr: base.into(),
                size: len.into(),
                kind: (usage as u32).into(),
            };
        }
        area.set(0, params.as_bytes());
        area.finish()
    }
}

impl fmt::Debug for SetupHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.0.version;
        write!(f, "SetupHeader {{ version: {version:#06x} }}")
    }
}

/// Checks a file with this header.
pub(in crate::image) fn parse<'d>(
    header: SetupHeader,
    contents: impl ReadRef<'d>,
) -> Result<Parsed, ImageErrorKind> {
    let SetupHeader(fields) = &header;
    let version = fields.version.get();
    if version < VERSION_MIN || fields.loadflags & LOADED_HIGH == 0 {
        return Err(ImageErrorKind::OldKernel { version });
    }
    // 0 means 4, in kernels older than any that get here.
    let sectors = match fields.setup_sects {
        0 => 4,
        sectors => u64::from(sectors),
    };
    let kernel = (sectors + 1) * SECTOR..len(contents);
    if kernel.is_empty() {
        return Err(ImageErrorKind::Truncated);
    }
    let segment = Segment {
        address: HIGH,
        len: kernel.end - kernel.start,
        file: kernel,
    };
    Ok(Parsed {
        segments: vec![segment],
        entry: u32::try_from(HIGH).unwrap_or(u32::MAX),
        protocol: Protocol::Linux(header),
    })
}
