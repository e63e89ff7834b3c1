//! Images that a PC boots without firmware: Multiboot 1 (Multiboot 0.6.96), as an ELF of 32 or 64
//! bits or as a flat file whose header says where it goes.
//!
//! [`Image::open`] reads and checks a file, [`Image::load`] puts it into guest RAM with the
//! [information](Boot) that its entry point is given.

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

use self::header::Header;
use crate::hypervisor::EntryPoint;

/// What a Multiboot loader leaves in EAX (Multiboot 0.6.96, 3.2).
const LOADER_MAGIC: u32 = 0x2bad_b002;

/// A part of a file and its place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// Physical address.
    address: u64,
    /// How much memory it takes; behind its bytes it is zero.
    len: u64,
    bytes: Vec<u8>,
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
    /// Reads a file.
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

    /// Takes the bytes of a file; `name` is for errors, and its last part the guest's `argv[0]`.
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

    /// Copies it into RAM that begins at 0 and was never written, with its information, and says
    /// where the first vCPU starts.
    pub fn load(&self, memory: &GuestMemoryMmap, boot: &Boot) -> Result<EntryPoint, ImageError> {
        let ram = memory.last_addr().0.saturating_add(1);
        for segment in &self.segments {
            place::check(&self.name, segment, ram)?;
            memory
                .write_slice(&segment.bytes, GuestAddress(segment.address))
                .map_err(|source| self.memory("its contents", source))?;
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
