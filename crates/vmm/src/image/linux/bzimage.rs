//! bzImage: the setup header, and the boot parameters that the kernel's 32-bit entry point finds in ESI (Linux
//! `Documentation/arch/x86/boot.rst`).

use std::fmt;

use object::ReadRef;

use super::{INITRD_LAST, Initrd};
use crate::image::low_memory::{Area, HIGH, memory_map};
use crate::image::{Boot, ImageError, Parsed, Protocol, Segment, len};

/// Offsets in the file, which are those in the boot parameters, too.
const SETUP_SECTS: usize = 0x1f1;
const HEADER_LEN: usize = 0x201;
const MAGIC: usize = 0x202;
const VERSION: usize = 0x206;
const TYPE_OF_LOADER: usize = 0x210;
const LOADFLAGS: usize = 0x211;
const RAMDISK_IMAGE: usize = 0x218;
const RAMDISK_SIZE: usize = 0x21c;
const CMD_LINE_PTR: usize = 0x228;
const INITRD_ADDR_MAX: usize = 0x22c;
const CMDLINE_SIZE: usize = 0x238;
const PREF_ADDRESS: usize = 0x258;
const INIT_SIZE: usize = 0x260;
const HEADER_END: usize = 0x264;
/// Offsets in the boot parameters alone: the root pointer of ACPI and the memory map.
const ACPI_RSDP: usize = 0x070;
const E820_ENTRIES: usize = 0x1e8;
const E820_TABLE: usize = 0x2d0;
/// Size of the boot parameters in bytes.
const BOOT_PARAMS: usize = 4096;

const HDRS: &[u8] = b"HdrS";
/// The first version that says where the kernel unpacks itself and how much memory that takes (Linux 2.6.31).
const VERSION_MIN: u16 = 0x020a;
/// The kernel's 32-bit part belongs at 1 MiB.
const LOADED_HIGH: u8 = 1;
/// The loader has no assigned number.
const UNDEFINED_LOADER: u8 = 0xff;
const SECTOR: u64 = 512;

/// The setup header of a file, which has been checked.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::image) struct SetupHeader {
    /// The bytes from [`SETUP_SECTS`] on.
    bytes: Vec<u8>,
}

impl SetupHeader {
    /// The bytes of the header, if the file has one.
    pub(in crate::image) fn find(file: &[u8]) -> Option<Self> {
        if file.get(MAGIC..MAGIC + 4)? != HDRS {
            return None;
        }
        let end = MAGIC + usize::from(*file.get(HEADER_LEN)?);
        let bytes = file.get(SETUP_SECTS..end.max(HEADER_END))?.to_vec();
        Some(Self { bytes })
    }

    /// The value at an offset that [`HEADER_END`] is above.
    fn get<const LEN: usize>(&self, offset: usize) -> [u8; LEN] {
        let bytes = self.bytes.get(offset - SETUP_SECTS..);
        bytes
            .and_then(|bytes| bytes.first_chunk())
            .copied()
            .unwrap_or([0; LEN])
    }

    fn word(&self, offset: usize) -> u64 {
        u32::from_le_bytes(self.get(offset)).into()
    }

    /// The end of the memory that the kernel takes to unpack itself.
    pub(in crate::image) fn end(&self) -> u64 {
        let preferred = u64::from_le_bytes(self.get(PREF_ADDRESS));
        preferred.saturating_add(self.word(INIT_SIZE))
    }

    /// The highest address for an initrd.
    pub(in crate::image) fn initrd_last(&self) -> u64 {
        match self.word(INITRD_ADDR_MAX) {
            0 => INITRD_LAST,
            last => last,
        }
    }

    /// The bytes of the boot parameters, and the command line after them, for a machine whose RAM ends at `ram`.
    pub(in crate::image) fn boot_params(
        &self,
        image: &str,
        boot: &Boot,
        ram: u64,
        initrd: Option<Initrd>,
    ) -> Result<Vec<u8>, ImageError> {
        let most = usize::try_from(self.word(CMDLINE_SIZE)).unwrap_or(usize::MAX);
        if boot.arguments.len() > most {
            return Err(ImageError::Information {
                image: image.to_owned(),
                needed: boot.arguments.len(),
                room: most,
            });
        }
        let mut area = Area::with(BOOT_PARAMS);
        area.set(SETUP_SECTS, &self.bytes);
        area.set(TYPE_OF_LOADER, &[UNDEFINED_LOADER]);
        let command = area.push_text(&boot.arguments);
        area.set(CMD_LINE_PTR, &command.to_le_bytes());
        if let Some(Initrd { address, len }) = initrd {
            let low = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
            area.set(RAMDISK_IMAGE, &low(address));
            area.set(RAMDISK_SIZE, &low(len));
        }
        area.set(
            ACPI_RSDP,
            &u64::from(vmbell_devices::ACPI_BASE).to_le_bytes(),
        );
        let map = memory_map(ram);
        area.set(E820_ENTRIES, &[u8::try_from(map.len()).unwrap_or(u8::MAX)]);
        for (index, (base, len, usage)) in map.into_iter().enumerate() {
            let at = E820_TABLE + 20 * index;
            area.set(at, &base.to_le_bytes());
            area.set(at + 8, &len.to_le_bytes());
            area.set(at + 16, &(usage as u32).to_le_bytes());
        }
        area.finish(image)
    }
}

impl fmt::Debug for SetupHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = u16::from_le_bytes(self.get(VERSION));
        write!(f, "SetupHeader {{ version: {version:#06x} }}")
    }
}

/// Checks a file with this header.
pub(in crate::image) fn parse<'d>(
    header: SetupHeader,
    image: &str,
    contents: impl ReadRef<'d>,
) -> Result<Parsed, ImageError> {
    let version = u16::from_le_bytes(header.get(VERSION));
    let [flags] = header.get(LOADFLAGS);
    if version < VERSION_MIN || flags & LOADED_HIGH == 0 {
        return Err(ImageError::OldKernel {
            image: image.to_owned(),
            version,
        });
    }
    // 0 means 4, for kernels older than any that come here.
    let [sectors] = header.get(SETUP_SECTS);
    let sectors = if sectors == 0 { 4 } else { u64::from(sectors) };
    let kernel = (sectors + 1) * SECTOR..len(contents);
    if kernel.is_empty() {
        return Err(ImageError::Truncated {
            image: image.to_owned(),
        });
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
