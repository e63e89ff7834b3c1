//! The Multiboot information that an image gets: memory, command line and one module (Multiboot 0.6.96, 3.3).

use crate::image::area::{Area, memory_map};
use crate::image::place::{self, HIGH, LOW_END};
use crate::image::{Boot, ImageError};

const PAGE: usize = 4096;
const LOADER: &str = "vmbell";

const MEMORY: u32 = 1 << 0;
const COMMAND_LINE: u32 = 1 << 2;
const MODULES: u32 = 1 << 3;
const MEMORY_MAP: u32 = 1 << 6;
const LOADER_NAME: u32 = 1 << 9;

/// Size of the information's fixed part in bytes, up to and including the loader's name.
const FIXED: usize = 68;

/// The command line: the image's file name, which guests take as `argv[0]`, and the arguments.
fn command_line(image: &str, arguments: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    // A space would split the name into two arguments.
    let name = name.replace(char::is_whitespace, "_");
    format!("{name} {arguments}").trim_end().replace('\0', " ")
}

/// The bytes to be written at [`place::INFORMATION`], for a machine whose RAM ends at `ram`.
pub(in crate::image) fn information(
    image: &str,
    boot: &Boot,
    ram: u64,
    align_modules: bool,
) -> Result<Vec<u8>, ImageError> {
    let mut area = Area::with(FIXED);
    let mut flags = MEMORY | COMMAND_LINE | MEMORY_MAP | LOADER_NAME;
    set(&mut area, 4, kibibytes(LOW_END));
    // The memory from 1 MiB on. kvm-unit-tests takes this value as the end of RAM and so does not use the last
    // mebibyte; read as the specification says, it is all of the RAM above 1 MiB.
    set(&mut area, 8, kibibytes(ram.saturating_sub(HIGH)));
    let command = area.push_text(&command_line(image, &boot.arguments));
    set(&mut area, 16, command);
    let map = map_entries(ram);
    let at = area.push(&map, 4);
    set(&mut area, 44, u32::try_from(map.len()).unwrap_or(u32::MAX));
    set(&mut area, 48, at);
    let name = area.push_text(LOADER);
    set(&mut area, 64, name);
    if let Some(module) = &boot.environment {
        flags |= MODULES;
        let entry = area.push(&[0; 16], 4);
        let first = area.push(module, if align_modules { PAGE } else { 16 });
        let len = u32::try_from(module.len()).unwrap_or(u32::MAX);
        let entry_at = (entry - place::INFORMATION) as usize;
        set(&mut area, entry_at, first);
        set(&mut area, entry_at + 4, first.saturating_add(len));
        set(&mut area, 20, 1);
        set(&mut area, 24, entry);
    }
    set(&mut area, 0, flags);
    area.finish(image)
}

fn set(area: &mut Area, at: usize, value: u32) {
    area.set(at, &value.to_le_bytes());
}

fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes >> 10).unwrap_or(u32::MAX)
}

fn map_entries(ram: u64) -> Vec<u8> {
    let mut map = Vec::new();
    for (base, len, usage) in memory_map(ram) {
        // The length of the entry without this field.
        map.extend(20_u32.to_le_bytes());
        map.extend(base.to_le_bytes());
        map.extend(len.to_le_bytes());
        map.extend((usage as u32).to_le_bytes());
    }
    map
}
