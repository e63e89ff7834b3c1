//! Why an image cannot be booted, and what the user can do about it. A file that cannot be booted is most often a
//! kernel for another CPU, or one that has to be unpacked first: both are recognized here.

use std::{error, fmt, io};

use super::uki;

/// An image that cannot be booted.
#[derive(Debug)]
pub struct ImageError {
    /// The file of the image.
    pub image: String,
    /// Why the image cannot be booted.
    pub kind: ImageErrorKind,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.image, self.kind)
    }
}

impl error::Error for ImageError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.kind.source()
    }
}

/// The reason why an image cannot be booted. The text leaves out the image's name, which [`ImageError`] adds.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageErrorKind {
    /// The file cannot be read.
    #[error("cannot read the image")]
    Read(#[source] io::Error),
    /// The file is not an image of a known kind.
    #[error(
        "neither an ELF nor a bzImage, and no multiboot header in its first 8192 bytes: give a kernel of Linux, or an \
         image for a multiboot 1 loader, such as kvm-unit-tests' x86/vmexit.flat"
    )]
    NotAnImage,
    /// The file is an ELF with neither a Multiboot header nor PVH's entry point.
    #[error(
        "an ELF without a multiboot header in its first 8192 bytes and without a note of its PVH entry point: it is not \
         made to be booted without firmware; build a kernel with CONFIG_PVH, or link an image with a multiboot 1 header \
         at its start"
    )]
    NoEntryProtocol,
    /// The file is for a CPU that is not x86.
    #[error("built for {cpu}, but this machine is an x86 PC: give an image for i386 or x86-64")]
    OtherCpu {
        /// The CPU, or the field `e_machine` of the ELF's header, in words.
        cpu: String,
    },
    /// The file is a kernel or an image for x86, and the machine is an arm64 one.
    #[error(
        "built for another CPU, but this is an arm64 machine: give an Image of Linux for arm64, or a flat file such as \
         kvm-unit-tests' arm/selftest.flat"
    )]
    NotForArm64,
    /// The file has a form that is not booted: it is compressed, or an arm64 kernel not yet converted to an Image.
    #[error("{form}, which this machine does not boot: give the file that `{commands}` makes")]
    Form {
        /// The form, in words.
        form: &'static str,
        /// The shell commands that make an image of the file.
        commands: String,
    },
    /// The file is a unified kernel image, for which a machine needs EFI.
    #[error("a unified kernel image, but this machine has no EFI: take it apart, {advice}")]
    Unified {
        /// The shell commands that take the file apart and boot it.
        advice: String,
    },
    /// The file has no bytes.
    #[error("the file is empty")]
    EmptyFile,
    /// The file is a program for EFI and not an arm64 kernel.
    #[error(
        "a program for EFI, but this machine has no firmware: give an Image of Linux, or a flat file"
    )]
    EfiProgram,
    /// The file is neither an arm64 kernel nor code.
    #[error(
        "not an image for arm64: it has neither \"ARM\\x64\" at byte 56, as Linux's Image has, nor an instruction as its \
         first 4 bytes"
    )]
    NotAnArm64Image,
    /// The bzImage's version of the boot protocol does not say how much memory the kernel takes.
    #[error(
        "not a bzImage, or one with version {version:#06x} of Linux's boot protocol, but this machine needs 0x020a (Linux \
         2.6.31): give a newer kernel"
    )]
    OldKernel {
        /// The version in the kernel's setup header.
        version: u16,
    },
    /// A file was given for which this kind of image has no use.
    #[error("this image has no use for {what}: leave it out")]
    NoUse {
        /// The file.
        what: &'static str,
    },
    /// The RAM after the image is too small for a file that goes there.
    #[error("{file} of {len} bytes does not fit after the image, where {room} bytes are free{}", advice(*len, *most))]
    NoRoom {
        /// The file, in words.
        file: String,
        /// The bytes of the file.
        len: u64,
        /// The bytes that are free.
        room: u64,
        /// The bytes that are free if the machine has the maximum amount of memory.
        most: u64,
    },
    /// The Multiboot header has no addresses, and the file is not an ELF, so it has no other addresses.
    #[error(
        "its multiboot header has no addresses (bit 16 of its flags) and it is not an ELF, so nothing says where it \
         goes: keep the ELF, or set the address fields"
    )]
    NotElf,
    /// The Multiboot header requires something of its loader that Multiboot 1 does not define.
    #[error(
        "requires what multiboot 1 does not define of its loader (bits {bits:#06x} of its multiboot flags): build it \
         without"
    )]
    Requirement {
        /// The bits of the header's flags with the requirement.
        bits: u32,
    },
    /// The addresses in the Multiboot header contradict each other or the file.
    #[error("the addresses of its multiboot header make no sense: {0}")]
    Addresses(&'static str),
    /// The ELF cannot be parsed.
    #[error("a broken ELF")]
    Elf(#[source] object::read::Error),
    /// A segment ends after the end of the file.
    #[error("a segment runs past the end of the file, of which a part is missing: copy it again")]
    Truncated,
    /// The ELF has no segment to load.
    #[error("no segment to load")]
    Empty,
    /// The entry point is in no segment, or above 4 GiB.
    #[error("begins at {entry:#x}, which is outside its segments below 4 GiB")]
    Entry {
        /// The address of the entry point.
        entry: u64,
    },
    /// The guest has too little RAM for the image.
    #[error(
        "needs {} KiB of memory, but the machine has {} KiB{}",
        end.div_ceil(1024),
        ram >> 10,
        advice(*end, *most)
    )]
    TooLarge {
        /// The end of the segment that does not fit.
        end: u64,
        /// The end of RAM.
        ram: u64,
        /// The end of RAM if the machine has the maximum amount of memory.
        most: u64,
    },
    /// A segment is in an address range that an image may not use.
    #[error(
        "its segment {first:#x}-{last:#x} is not in RAM that it may use, which is below {low:#x} and from 0x100000 on: \
         link it elsewhere"
    )]
    Outside {
        /// The segment's first address.
        first: u64,
        /// The segment's last address.
        last: u64,
        /// The end of the RAM below 1 MiB that an image may use.
        low: u64,
    },
    /// The command line is longer than the kernel takes.
    #[error("its command line has {len} bytes, but may have {most}: shorten it (--append)")]
    CommandLine {
        /// The bytes of the command line.
        len: usize,
        /// The maximum number of bytes.
        most: usize,
    },
    /// The command lines of the image and its modules do not fit into the area for them.
    #[error(
        "its command line, with those of its modules, needs {needed} bytes, but there is room for {room}: shorten it"
    )]
    Information {
        /// The bytes of the command lines and the rest of the information.
        needed: usize,
        /// The bytes of the area.
        room: usize,
    },
    /// The length of a file has changed since it was opened.
    #[error(
        "{file} had {before} bytes and now has {now}: it must not change until the guest has started"
    )]
    Changed {
        /// The file, in words.
        file: String,
        /// The length in bytes when the file was opened.
        before: u64,
        /// The length now.
        now: u64,
    },
    /// Guest memory could not be written.
    #[error("cannot write {what} to guest memory")]
    Memory {
        /// The image or what goes with it, in words.
        what: String,
        /// The error of the write.
        source: vm_memory::GuestMemoryError,
    },
}

impl ImageErrorKind {
    /// Makes the error of this image.
    pub(super) fn of(self, image: &str) -> ImageError {
        ImageError {
            image: image.to_owned(),
            kind: self,
        }
    }
}

/// Returns the end of a message about too little memory. It advises more memory if `most` is enough for `needed`.
fn advice(needed: u64, most: u64) -> String {
    match needed <= most {
        true => ": give the machine more memory (--memory)".to_owned(),
        false => format!(", and no machine has more than {most} bytes"),
    }
}

/// Marks of kernels: an offset, the bytes there, and the kernel's CPU (Linux `Documentation/arch/arm64/booting.rst`,
/// `Documentation/arch/riscv/boot-image-header.rst`, `arch/arm/boot/compressed/head.S` and
/// `drivers/firmware/efi/libstub/zboot-header.S`).
const KERNELS: [(usize, &[u8], &str); 4] = [
    (0x38, b"ARM\x64", "arm64"),
    (0x38, b"RSC\x05", "RISC-V"),
    (0x24, &[0x18, 0x28, 0x6f, 0x01], "32-bit Arm"),
    (4, b"zimg", "arm64, RISC-V or LoongArch"),
];

/// The bytes at the start of a compressed file, and the program that unpacks it.
const COMPRESSED: [(&[u8], &str); 7] = [
    (&[0x1f, 0x8b], "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (b"BZh", "bzip2"),
    (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4"),
    (&[0x5d, 0, 0], "lzma"),
];

/// The form of a file that begins with such bytes.
pub(super) const COMPRESSED_FORM: &str = "compressed";

/// Returns the program that unpacks these bytes with `-dc`, if they are compressed.
pub(super) fn unpacker(bytes: &[u8]) -> Option<&'static str> {
    let format = COMPRESSED
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic));
    format.map(|(_, program)| *program)
}

/// Returns the CPU of the kernel that begins with these bytes, if it is not x86.
pub(super) fn cpu(bytes: &[u8]) -> Option<&'static str> {
    let has = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let kernel = KERNELS.iter().find(|(at, magic, _)| has(*at, magic));
    kernel.map(|(_, _, cpu)| *cpu)
}

/// Returns why these bytes are not an image. They are neither an ELF nor a bzImage, and have no Multiboot header.
pub(super) fn refusal(image: &str, bytes: &[u8]) -> ImageErrorKind {
    if let Some(advice) = uki::advice(image, bytes) {
        return ImageErrorKind::Unified { advice };
    }
    if let Some(cpu) = cpu(bytes) {
        let cpu = cpu.to_owned();
        return ImageErrorKind::OtherCpu { cpu };
    }
    if let Some(program) = unpacker(bytes) {
        return ImageErrorKind::Form {
            form: COMPRESSED_FORM,
            commands: format!("{program} -dc <'{image}' >image"),
        };
    }
    ImageErrorKind::NotAnImage
}

#[cfg(test)]
#[path = "error_test.rs"]
mod tests;
