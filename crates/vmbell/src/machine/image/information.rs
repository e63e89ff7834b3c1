//! The Multiboot information that an image gets: memory, command line and one module (Multiboot 0.6.96, 3.3).

use vm_memory::GuestAddress;

use super::ImageError;
use super::place::{self, HIGH, INFORMATION_LEN, LOW_END};

/// Guest-physical address of the information, which the image finds in EBX.
pub const INFORMATION: GuestAddress = GuestAddress(place::INFORMATION as u64);

const PAGE: usize = 4096;
const LOADER: &[u8] = b"vmbell\0";

const MEMORY: u32 = 1 << 0;
const COMMAND_LINE: u32 = 1 << 2;
const MODULES: u32 = 1 << 3;
const MEMORY_MAP: u32 = 1 << 6;
const LOADER_NAME: u32 = 1 << 9;

/// Size of the information's fixed part in bytes, up to and including the loader's name.
const FIXED: usize = 68;
const AVAILABLE: u32 = 1;
const RESERVED: u32 = 2;

/// The arguments and the environment with which an image is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// The arguments after the image's name.
    pub arguments: String,
    /// The contents of a file that becomes the only module: kvm-unit-tests reads lines of `NAME=VALUE` from it.
    pub environment: Option<Vec<u8>>,
}

impl Boot {
    /// The command line: the image's file name, which guests take as `argv[0]`, and the arguments.
    pub(super) fn command_line(&self, image: &str) -> String {
        let name = image.rsplit('/').next().unwrap_or(image);
        // A space would split the name into two arguments.
        let name = name.replace(char::is_whitespace, "_");
        format!("{name} {}", self.arguments)
            .trim_end()
            .replace('\0', " ")
    }
}

/// The information did not fit into its area.
#[derive(Debug)]
pub(super) struct TooLong {
    needed: usize,
}

impl TooLong {
    pub(super) fn of(self, image: &str) -> ImageError {
        ImageError::Information {
            image: image.to_owned(),
            needed: self.needed,
            room: INFORMATION_LEN,
        }
    }
}

/// The bytes of the information, which are placed at a known address.
struct Area(Vec<u8>);

impl Area {
    /// Appends `bytes` at a multiple of `alignment` and returns their guest-physical address.
    fn push(&mut self, bytes: &[u8], alignment: usize) -> u32 {
        self.0.resize(self.0.len().next_multiple_of(alignment), 0);
        let offset = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.extend(bytes);
        place::INFORMATION.saturating_add(offset)
    }

    fn set(&mut self, at: usize, value: u32) {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
}

/// The bytes to be written at [`INFORMATION`], for a machine whose RAM ends at `ram`.
pub(super) fn bytes(
    command: &str,
    boot: &Boot,
    ram: u64,
    align_modules: bool,
) -> Result<Vec<u8>, TooLong> {
    let mut area = Area(vec![0; FIXED]);
    let mut flags = MEMORY | COMMAND_LINE | MEMORY_MAP | LOADER_NAME;
    area.set(4, kibibytes(LOW_END));
    // The memory from 1 MiB on. kvm-unit-tests takes this value as the end of RAM and so does not use the last
    // mebibyte; read as the specification says, it is all of the RAM above 1 MiB.
    area.set(8, kibibytes(ram.saturating_sub(HIGH)));
    let mut command = command.as_bytes().to_vec();
    command.push(0);
    let command = area.push(&command, 4);
    area.set(16, command);
    let map = memory_map(ram);
    let at = area.push(&map, 4);
    area.set(44, u32::try_from(map.len()).unwrap_or(u32::MAX));
    area.set(48, at);
    let name = area.push(LOADER, 4);
    area.set(64, name);
    if let Some(module) = &boot.environment {
        flags |= MODULES;
        let entry = area.push(&[0; 16], 4);
        let first = area.push(module, if align_modules { PAGE } else { 16 });
        let len = u32::try_from(module.len()).unwrap_or(u32::MAX);
        let entry_at = (entry - place::INFORMATION) as usize;
        area.set(entry_at, first);
        area.set(entry_at + 4, first.saturating_add(len));
        area.set(20, 1);
        area.set(24, entry);
    }
    area.set(0, flags);
    let Area(bytes) = area;
    if bytes.len() > INFORMATION_LEN {
        return Err(TooLong {
            needed: bytes.len(),
        });
    }
    Ok(bytes)
}

fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(u32::MAX)
}

/// The memory map: RAM below the BIOS's data, the hole up to 1 MiB, and the RAM above.
fn memory_map(ram: u64) -> Vec<u8> {
    let entries = [
        (0, LOW_END, AVAILABLE),
        (LOW_END, HIGH - LOW_END, RESERVED),
        (HIGH, ram.saturating_sub(HIGH), AVAILABLE),
    ];
    let mut map = Vec::new();
    for (base, len, kind) in entries {
        // The length of the entry without this field.
        map.extend(20_u32.to_le_bytes());
        map.extend(u64::to_le_bytes(base));
        map.extend(u64::to_le_bytes(len));
        map.extend(u32::to_le_bytes(kind));
    }
    map
}
