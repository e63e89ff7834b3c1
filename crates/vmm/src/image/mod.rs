//! Images that a PC boots without firmware: ELFs and flat files for a Multiboot 1 loader (Multiboot 0.6.96), ELFs with
//! PVH's entry point, and Linux's bzImage. An arm64 machine boots an [`Arm64Image`].
//!
//! [`Image::open`] reads and checks a file; [`Image::load`] copies it into guest RAM, with the
//! [information](Boot) for its entry point. Both run on the caller's thread.

mod boot_file;
mod contents;
mod elf;
mod error;
mod linux;
mod low_memory;
mod multiboot;
#[cfg(test)]
#[path = "image_test.rs"]
mod tests;
mod uki;

use std::ops::Range;
use std::path::Path;

use object::ReadRef;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmbell_hypervisor::EntryPoint;

use self::contents::Parse;
use self::linux::{Initrd, SetupHeader};
use crate::ram::MEMORY_MAX;

pub use self::boot_file::BootFile;
pub use self::linux::Arm64Image;
pub(super) use self::linux::TREE_LEN;
pub use error::{ImageError, ImageErrorKind};
pub(super) use low_memory::LOW_END;
pub use object::read::Error as ElfError;

/// Guest-physical address of the information, which the image finds in a register.
pub const INFORMATION: GuestAddress = GuestAddress(low_memory::INFORMATION as u64);

/// The arguments and files with which an image is started.
#[derive(Clone, Debug, Default)]
pub struct Boot {
    /// The arguments. They follow the image's name, unless the image is a kernel of Linux.
    pub arguments: String,
    /// The file of lines `NAME=VALUE` for kvm-unit-tests, which read it if it is the only module.
    pub environment: Option<BootFile>,
    /// The first file system of a kernel of Linux.
    pub initrd: Option<BootFile>,
    /// The modules of a Multiboot image. The environment is a module before them.
    pub modules: Vec<Module>,
}

impl Boot {
    /// Fails if the arguments have more bytes than a kernel takes.
    fn check_arguments(&self, most: usize) -> Result<(), ImageErrorKind> {
        let len = self.arguments.len();
        if len <= most {
            return Ok(());
        }
        Err(ImageErrorKind::CommandLine { len, most })
    }
}

/// A file for a Multiboot image, with its own arguments.
#[derive(Clone, Debug)]
pub struct Module {
    /// The text that the image gets with the file: by convention its name, a space, and its arguments.
    pub command_line: String,
    /// The file.
    pub file: BootFile,
}

/// A part of a file and its address in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// Guest-physical address.
    address: u64,
    /// Size in memory, in bytes. The part after the file's bytes is zero.
    len: u64,
    /// Where the segment's bytes are in the file.
    file: Range<u64>,
}

impl Segment {
    /// Address after the bytes from the file.
    fn end(&self) -> GuestAddress {
        let len = self.file.end.saturating_sub(self.file.start);
        GuestAddress(self.address.saturating_add(len))
    }
}

/// The end of RAM, and where RAM would end if the machine had the maximum amount of memory.
#[derive(Clone, Copy, Debug)]
struct RamEnd {
    now: u64,
    most: u64,
}

impl RamEnd {
    fn new(memory: &GuestMemoryMmap, most: u64) -> Self {
        let now = memory.last_addr().0.saturating_add(1);
        Self { now, most }
    }

    /// Fails if an image in RAM from `base` on needs memory up to `end`, which is beyond RAM.
    fn check(self, base: u64, end: u64) -> Result<(), ImageErrorKind> {
        if end <= self.now {
            return Ok(());
        }
        Err(ImageErrorKind::TooLarge {
            end: end - base,
            ram: self.now - base,
            most: self.most - base,
        })
    }

    /// Makes the error that a file does not fit between the addresses `first` and `last`.
    fn no_room(self, file: String, len: u64, (first, last): (u64, u64)) -> ImageErrorKind {
        let room = |ram: u64| ram.min(last.saturating_add(1)).saturating_sub(first);
        ImageErrorKind::NoRoom {
            file,
            len,
            room: room(self.now),
            most: room(self.most),
        }
    }
}

/// How an image is entered, and with which information.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Protocol {
    Multiboot,
    Pvh { is_linux: bool },
    Linux(SetupHeader),
}

/// What the headers of a file say.
#[derive(Clone, Debug)]
struct Parsed {
    segments: Vec<Segment>,
    /// Guest-physical address of the first instruction.
    entry: u32,
    protocol: Protocol,
}

/// An image that can be booted.
#[derive(Clone, Debug)]
pub struct Image {
    file: BootFile,
    parsed: Parsed,
}

impl Image {
    /// Opens and checks a file. [`load`](Self::load) reads it.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let (file, head) = BootFile::image(path, |_, head| is_image(head))?;
        Self::of(file, &head)
    }

    /// Checks the bytes of a file. `name` is for errors; its last part becomes the `argv[0]` of a Multiboot image.
    pub fn parse(name: String, bytes: &[u8]) -> Result<Self, ImageError> {
        let (file, head) = BootFile::image_of(name, bytes)?;
        Self::of(file, &head)
    }

    fn of(file: BootFile, head: &[u8]) -> Result<Self, ImageError> {
        let name = file.name();
        let parsed = file.contents().parsed(Parser { name, head });
        let parsed = parsed.map_err(|kind| kind.of(name))?;
        Ok(Self { file, parsed })
    }

    fn name(&self) -> &str {
        self.file.name()
    }

    /// Whether the image is a kernel, which has a console, and not an image for a Multiboot loader.
    pub fn is_kernel(&self) -> bool {
        !matches!(self.parsed.protocol, Protocol::Multiboot)
    }

    /// Copies the image and its information into `memory`, which must begin at 0 and be zero except for what a BIOS
    /// leaves, and returns the entry point of the first vCPU.
    pub fn load(&self, memory: &GuestMemoryMmap, boot: &Boot) -> Result<EntryPoint, ImageError> {
        let entry = self.load_all(memory, boot);
        entry.map_err(|kind| kind.of(self.name()))
    }

    fn load_all(
        &self,
        memory: &GuestMemoryMmap,
        boot: &Boot,
    ) -> Result<EntryPoint, ImageErrorKind> {
        self.check_files(boot)?;
        let ram_end = RamEnd::new(memory, MEMORY_MAX);
        let ram = ram_end.now;
        let end = self.load_segments(memory, ram_end)?;
        let initrd = |end, last| {
            let file = boot.initrd.as_ref();
            Initrd::load(file, memory, ram_end, (end, last))
        };
        let (mut eax, mut ebx, mut esi) = (0, 0, 0);
        let information = match &self.parsed.protocol {
            Protocol::Multiboot => {
                let modules = multiboot::load_modules(memory, ram_end, boot, end)?;
                eax = multiboot::LOADER_MAGIC;
                ebx = low_memory::INFORMATION;
                multiboot::information(self.name(), boot, ram, &modules)?
            }
            Protocol::Pvh { is_linux } => {
                let initrd = initrd(end, linux::INITRD_LAST)?;
                ebx = low_memory::INFORMATION;
                linux::start_info(*is_linux, boot, ram, initrd)?
            }
            Protocol::Linux(header) => {
                let end = header.end().max(end);
                ram_end.check(0, end)?;
                let initrd = initrd(end, header.initrd_last())?;
                esi = low_memory::INFORMATION;
                header.boot_params(boot, ram, initrd)?
            }
        };
        write(memory, &information, INFORMATION, "its information")?;
        Ok(EntryPoint::Protected {
            pc: self.parsed.entry,
            eax,
            ebx,
            esi,
        })
    }

    /// Copies the segments, and returns the end of the highest one.
    fn load_segments(&self, memory: &GuestMemoryMmap, ram: RamEnd) -> Result<u64, ImageErrorKind> {
        let mut end = 0;
        for segment in &self.parsed.segments {
            low_memory::check(segment, ram)?;
            let address = GuestAddress(segment.address);
            let contents = self.file.contents();
            contents.copy("the image", &segment.file, memory, address)?;
            let zeros = low_memory::zeros(segment);
            write(memory, &zeros, segment.end(), "its zeros")?;
            end = end.max(segment.address.saturating_add(segment.len));
        }
        Ok(end)
    }

    /// Fails if the image has no use for a file.
    fn check_files(&self, boot: &Boot) -> Result<(), ImageErrorKind> {
        let what = match (self.is_kernel(), boot) {
            (
                true,
                Boot {
                    environment: Some(_),
                    ..
                },
            ) => "an environment file (--env)",
            (true, Boot { modules, .. }) if !modules.is_empty() => "modules",
            (
                false,
                Boot {
                    initrd: Some(_), ..
                },
            ) => "an initrd",
            _ => return Ok(()),
        };
        Err(ImageErrorKind::NoUse { what })
    }
}

fn write(
    memory: &GuestMemoryMmap,
    bytes: &[u8],
    at: GuestAddress,
    what: &str,
) -> Result<(), ImageErrorKind> {
    let written = memory.write_slice(bytes, at);
    written.map_err(|source| ImageErrorKind::Memory {
        what: what.to_owned(),
        source,
    })
}

/// Whether a file begins like an image.
fn is_image(head: &[u8]) -> bool {
    multiboot::Header::find(head).is_some()
        || elf::is_elf(head)
        || SetupHeader::find(head).is_some()
}

/// Finds out what a file is by its first bytes, and checks it.
struct Parser<'i> {
    name: &'i str,
    head: &'i [u8],
}

impl Parse for Parser<'_> {
    type Output = Result<Parsed, ImageErrorKind>;

    fn parse<'d, R: ReadRef<'d>>(self, contents: R) -> Self::Output {
        let Self { name, head } = self;
        if let Some(header) = multiboot::Header::find(head) {
            multiboot::parse(header, head, contents)
        } else if elf::is_elf(head) {
            linux::parse_elf(contents)
        } else if let Some(header) = SetupHeader::find(head) {
            linux::parse_bzimage(header, contents)
        } else {
            Err(error::refusal(name, head))
        }
    }
}

/// The length of a file; 0 if it is not known.
fn len<'d>(contents: impl ReadRef<'d>) -> u64 {
    contents.len().unwrap_or_default()
}
