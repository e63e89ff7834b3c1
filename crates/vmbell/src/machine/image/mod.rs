//! Images that a PC boots without firmware, as a Multiboot 1 loader does (Multiboot 0.6.96): ELFs of 32 or 64
//! bits, and flat files whose header has their addresses.
//!
//! [`Image::open`] reads and checks a file; [`Image::load`] copies it into guest RAM, with the
//! [information](Boot) for its entry point. Both run on the caller's thread.

mod elf;
mod error;
mod header;
mod information;
mod place;
#[cfg(test)]
#[path = "image_test.rs"]
mod tests;

use std::fs;
use std::path::Path;

use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

pub use error::ImageError;
pub use information::{Boot, INFORMATION};
pub use object::read::Error as ElfError;
pub(super) use place::LOW_END;

use self::header::Header;
use crate::hypervisor::EntryPoint;

/// The value that a Multiboot loader leaves in EAX (Multiboot 0.6.96, 3.2).
const LOADER_MAGIC: u32 = 0x2bad_b002;

/// A part of a file and its address in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// Guest-physical address.
    address: u64,
    /// Size in memory, in bytes. The part after `bytes` is zero.
    len: u64,
    bytes: Vec<u8>,
}

impl Segment {
    /// Address behind the bytes from the file.
    fn end(&self) -> GuestAddress {
        let len = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        GuestAddress(self.address.saturating_add(len))
    }
}

/// An image that can be booted.
#[derive(Clone, Debug)]
pub struct Image {
    name: String,
    segments: Vec<Segment>,
    entry: u32,
    align_modules: bool,
}

impl Image {
    /// Reads and checks a file.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let name = path.display().to_string();
        match fs::read(path) {
            Ok(bytes) => Self::parse(name, &bytes),
            Err(source) => Err(ImageError::Read {
                image: name,
                source,
            }),
        }
    }

    /// Checks the bytes of a file. `name` is for errors; its last part becomes the guest's `argv[0]`.
    pub fn parse(name: String, bytes: &[u8]) -> Result<Self, ImageError> {
        let is_elf = bytes.starts_with(&object::elf::ELFMAG);
        let Some(header) = Header::find(bytes) else {
            let image = name;
            return Err(if is_elf {
                ImageError::NotMultiboot { image }
            } else {
                ImageError::NotAnImage { image }
            });
        };
        let (segments, entry) = match header.check(&name)? {
            Some(addresses) => addresses.segments(&name, bytes)?,
            None if is_elf => elf::segments(&name, bytes)?,
            None => return Err(ImageError::NotElf { image: name }),
        };
        Ok(Self {
            name,
            segments,
            entry,
            align_modules: header.aligns_modules(),
        })
    }

    /// Copies the image and its information into `memory`, which must begin at 0 and be zero but for what a BIOS leaves,
    /// and returns the entry point of the first vCPU.
    pub fn load(&self, memory: &GuestMemoryMmap, boot: &Boot) -> Result<EntryPoint, ImageError> {
        let ram = memory.last_addr().0.saturating_add(1);
        for segment in &self.segments {
            place::check(&self.name, segment, ram)?;
            memory
                .write_slice(&segment.bytes, GuestAddress(segment.address))
                .map_err(|source| self.memory("its contents", source))?;
            memory
                .write_slice(&place::zeros(segment), segment.end())
                .map_err(|source| self.memory("its zeros", source))?;
        }
        let command = boot.command_line(&self.name);
        let information = information::bytes(&command, boot, ram, self.align_modules)
            .map_err(|error| error.of(&self.name))?;
        memory
            .write_slice(&information, INFORMATION)
            .map_err(|source| self.memory("its multiboot information", source))?;
        Ok(EntryPoint::Multiboot {
            pc: self.entry,
            magic: LOADER_MAGIC,
            information: place::INFORMATION,
        })
    }

    fn memory(&self, what: &'static str, source: vm_memory::GuestMemoryError) -> ImageError {
        ImageError::Memory {
            image: self.name.clone(),
            what,
            source,
        }
    }
}
