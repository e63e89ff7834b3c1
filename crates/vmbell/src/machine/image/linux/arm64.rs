//! arm64's Image: the header at its start says where it goes and how much memory it takes (Linux
//! `Documentation/arch/arm64/booting.rst`). It is entered at its first byte, with the device tree in `x0`.

use std::path::Path;

use object::elf::EM_AARCH64;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use super::packed::unpacking;
use super::{Initrd, SetupHeader};
use crate::machine::image::contents::Contents;
use crate::machine::image::{Boot, ImageError, elf};

/// The magic number and its offset.
const MAGIC: &[u8] = b"ARM\x64";
const MAGIC_AT: usize = 0x38;
/// Offsets of the other fields: where the kernel goes, from a multiple of [`ALIGNMENT`], and how much memory it takes
/// from there.
const TEXT_OFFSET: usize = 8;
const IMAGE_SIZE: usize = 16;
/// Offset and size of the field with the CPU in an ELF.
const ELF_MACHINE: usize = 18;

const ALIGNMENT: u64 = 2 << 20;
/// The multiple from which the kernel's place counts: below is the machine's own.
const BASE: u64 = ALIGNMENT;
/// The longest command line that the kernel takes (`COMMAND_LINE_SIZE`), without the zero at its end.
const COMMAND_LINE: usize = 2047;

/// Whether a file is an Image.
fn is_image(file: &[u8]) -> bool {
    file.get(MAGIC_AT..)
        .is_some_and(|magic| magic.starts_with(MAGIC))
}

/// A kernel of Linux for arm64.
#[derive(Clone, Debug)]
pub struct Arm64Image {
    name: String,
    contents: Contents,
    /// The file's length.
    len: u64,
    text_offset: u64,
    image_size: u64,
}

/// Where a kernel is in memory, and its initrd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) struct Loaded {
    /// Guest-physical address of the first instruction.
    pub(in crate::machine) entry: u64,
    /// First address and length of the initrd.
    pub(in crate::machine) initrd: Option<(u64, u64)>,
}

impl Arm64Image {
    /// Opens and checks a file.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let name = path.display().to_string();
        match Contents::open(path, is_image) {
            Ok(contents) => Self::of(name, contents),
            Err(source) => Err(ImageError::Read {
                image: name,
                source,
            }),
        }
    }

    /// Checks the bytes of a file. `name` is for errors.
    pub fn parse(name: String, bytes: &[u8]) -> Result<Self, ImageError> {
        Self::of(name, Contents::Bytes(bytes.into()))
    }

    fn of(name: String, contents: Contents) -> Result<Self, ImageError> {
        let read = contents.head().and_then(|head| Ok((head, contents.len()?)));
        let (head, len) = match read {
            Ok(read) => read,
            Err(source) => {
                return Err(ImageError::Read {
                    image: name,
                    source,
                });
            }
        };
        if !is_image(&head) {
            return Err(refusal(name, &head));
        }
        let field = |at: usize| {
            let bytes = head.get(at..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (text_offset, image_size) = (field(TEXT_OFFSET), field(IMAGE_SIZE));
        if image_size == 0 {
            return Err(ImageError::NoImageSize { image: name });
        }
        Ok(Self {
            name,
            contents,
            len,
            text_offset,
            image_size,
        })
    }

    /// Copies the kernel and its initrd into `memory`, which must begin at 0 and be zero.
    pub(in crate::machine) fn load(
        &self,
        memory: &GuestMemoryMmap,
        boot: &Boot,
    ) -> Result<Loaded, ImageError> {
        let image = || self.name.clone();
        if boot.environment.is_some() {
            let what = "environment file (--env)";
            return Err(ImageError::NoUse {
                image: image(),
                what,
            });
        }
        if boot.arguments.len() > COMMAND_LINE {
            return Err(ImageError::Information {
                image: image(),
                needed: boot.arguments.len(),
                room: COMMAND_LINE,
            });
        }
        let ram = memory.last_addr().0.saturating_add(1);
        let entry = BASE.saturating_add(self.text_offset);
        let end = entry.saturating_add(self.image_size.max(self.len));
        if end > ram {
            return Err(ImageError::TooLarge {
                image: image(),
                end,
                ram,
            });
        }
        let failed = |what| {
            move |source| ImageError::Memory {
                image: image(),
                what,
                source,
            }
        };
        self.contents
            .copy(&(0..self.len), memory, GuestAddress(entry))
            .map_err(failed("its contents"))?;
        let Some(bytes) = &boot.initrd else {
            let initrd = None;
            return Ok(Loaded { entry, initrd });
        };
        let initrd = Initrd::place(&self.name, bytes.len(), end, ram, u64::MAX)?;
        memory
            .write_slice(bytes, GuestAddress(initrd.address))
            .map_err(failed("the initrd"))?;
        Ok(Loaded {
            entry,
            initrd: Some((initrd.address, initrd.len)),
        })
    }
}

/// Why a file is no Image.
fn refusal(image: String, file: &[u8]) -> ImageError {
    if let Some(commands) = unpacking(&image, file) {
        return ImageError::Packed { image, commands };
    }
    if SetupHeader::find(file).is_some() {
        return ImageError::OtherKernel { image };
    }
    if !elf::is_elf(file) {
        return ImageError::NotAnArm64Image { image };
    }
    let machine = file.get(ELF_MACHINE..).and_then(|rest| rest.first_chunk());
    if machine.is_some_and(|machine| u16::from_le_bytes(*machine) == EM_AARCH64.0) {
        return ImageError::Arm64Elf { image };
    }
    ImageError::OtherKernel { image }
}

#[cfg(test)]
#[path = "arm64_test.rs"]
mod tests;
