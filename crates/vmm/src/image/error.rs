//! Why an image cannot be booted, and what the user can do about it. A file that cannot be booted is most often a
//! kernel for another CPU, or one that has to be unpacked first: both are recognized here.

use std::io;

use super::contents::CopyError;
use super::uki;

/// The reason why an image cannot be booted.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("cannot read image {image}")]
    Read {
        /// The file.
        image: String,
        /// The error of reading it.
        source: io::Error,
    },
    /// The file is not an image of a known kind.
    #[error(
        "{image} is neither an ELF nor a bzImage, and has no multiboot header in its first 8192 bytes: give a kernel of Linux, \
         or an image for a multiboot 1 loader, such as kvm-unit-tests' x86/vmexit.flat"
    )]
    NotAnImage {
        /// The file.
        image: String,
    },
    /// The file is an ELF with neither a Multiboot header nor PVH's entry point.
    #[error(
        "{image} is an ELF without a multiboot header in its first 8192 bytes and without a note of its PVH entry point: it \
         is not made to be booted without firmware; build a kernel with CONFIG_PVH, or link an image with a multiboot 1 \
         header at its start"
    )]
    NoEntryProtocol {
        /// The file.
        image: String,
    },
    /// The file is a kernel for another CPU.
    #[error("{image} is a kernel for {cpu}, and this is an x86 PC: give one for i386 or x86-64")]
    OtherCpu {
        /// The file.
        image: String,
        /// The CPU.
        cpu: &'static str,
    },
    /// The file is compressed, and no kernel that unpacks itself.
    #[error(
        "{image} is compressed, and does not unpack itself: `{program} -dc {image} >image`, and give that"
    )]
    Compressed {
        /// The file.
        image: String,
        /// The program that unpacks it.
        program: &'static str,
    },
    /// The file is a kernel or an image for x86, and the machine is an arm64 one.
    #[error(
        "{image} is for another CPU, and this is an arm64 machine: give an Image of Linux for arm64, or a flat file such \
         as kvm-unit-tests' arm/selftest.flat"
    )]
    OtherKernel {
        /// The file.
        image: String,
    },
    /// The file is an ELF for arm64, such as a kernel before it is made an Image.
    #[error(
        "{image} is an ELF: give the flat file, which `objcopy -O binary -S '{image}' Image` makes of it"
    )]
    Arm64Elf {
        /// The file.
        image: String,
    },
    /// The arm64 kernel is compressed, and no firmware unpacks it.
    #[error("{image} is compressed: give the Image, which `{commands}` makes of it")]
    Packed {
        /// The file.
        image: String,
        /// The commands of a shell that unpack it.
        commands: String,
    },
    /// The file is a unified kernel image, for which a machine needs EFI.
    #[error(
        "{image} is a unified kernel image, and this machine has no EFI: take it apart, {advice}"
    )]
    Unified {
        /// The file.
        image: String,
        /// The commands of a shell that do that, and boot it.
        advice: String,
    },
    /// The file has no bytes.
    #[error("{image} is empty")]
    EmptyFile {
        /// The file.
        image: String,
    },
    /// The file is a program for EFI and no arm64 kernel.
    #[error(
        "{image} is a program for EFI, and this machine has no firmware: give an Image of Linux, or a flat file"
    )]
    EfiProgram {
        /// The file.
        image: String,
    },
    /// The file is neither an arm64 kernel nor code.
    #[error(
        "{image} is not an image for arm64: it has neither \"ARM\\x64\" at byte 56, as Linux's Image has, nor an instruction as \
         its first 4 bytes"
    )]
    NotAnArm64Image {
        /// The file.
        image: String,
    },
    /// The bzImage is older than the boot protocol that says what memory it takes.
    #[error(
        "{image} has version {version:#06x} of Linux's boot protocol or is not a bzImage, and this machine needs 0x020a, which \
         has been there since Linux 2.6.31: give a newer kernel"
    )]
    OldKernel {
        /// The file.
        image: String,
        /// The version in its setup header.
        version: u16,
    },
    /// A file was given for which this kind of image has no use.
    #[error("{image} has no use for {what}: leave it out")]
    NoUse {
        /// The image.
        image: String,
        /// The file.
        what: &'static str,
    },
    /// The RAM after the image is too small for a file that goes there.
    #[error("{file} of {len} bytes does not fit after {image}, where {room} bytes are free{}", advice(*len, *most))]
    NoRoom {
        /// The image.
        image: String,
        /// The file, in words.
        file: String,
        /// The bytes of the file.
        len: u64,
        /// The bytes that are free.
        room: u64,
        /// The bytes that are free with the most memory that such a machine can have.
        most: u64,
    },
    /// The Multiboot header has no addresses, and the file is not an ELF, which would have them.
    #[error(
        "{image} has a multiboot header without addresses (bit 16 of its flags) and is not an ELF, so \
         nothing says where it goes: keep the ELF, or set the address fields"
    )]
    NotElf {
        /// The file.
        image: String,
    },
    /// The Multiboot header requires something of its loader that Multiboot 1 does not define.
    #[error(
        "{image} requires what multiboot 1 does not define of its loader (bits {bits:#06x} of its multiboot flags): build it \
         without"
    )]
    Requirement {
        /// The file.
        image: String,
        /// The bits of the header's flags that require it.
        bits: u32,
    },
    /// The addresses in the Multiboot header contradict each other or the file.
    #[error("{image}: the addresses of its multiboot header make no sense: {what}")]
    Addresses {
        /// The file.
        image: String,
        /// The contradiction, in words.
        what: &'static str,
    },
    /// The ELF cannot be parsed.
    #[error("{image} is a broken ELF")]
    Elf {
        /// The file.
        image: String,
        /// The error of the parser.
        source: object::read::Error,
    },
    /// A segment ends after the end of the file.
    #[error(
        "{image}: a segment runs past the end of the file, of which a part is missing: copy it again"
    )]
    Truncated {
        /// The file.
        image: String,
    },
    /// The ELF is for another CPU.
    #[error(
        "{image} is for ELF machine {machine}, and this is an x86 PC: build it for i386 or x86-64"
    )]
    Machine {
        /// The file.
        image: String,
        /// The field `e_machine` of its header.
        machine: u16,
    },
    /// The ELF has no segment to load.
    #[error("{image} has no segment to load")]
    Empty {
        /// The file.
        image: String,
    },
    /// The entry point is in no segment, or above 4 GiB.
    #[error("{image} begins at {entry:#x}, which is outside its segments below 4 GiB")]
    Entry {
        /// The file.
        image: String,
        /// The address of the entry point.
        entry: u64,
    },
    /// The guest has too little RAM for the image.
    #[error(
        "{image} needs {} KiB of memory, and the machine has {} KiB{}",
        end.div_ceil(1024),
        ram >> 10,
        advice(*end, *most)
    )]
    TooLarge {
        /// The file.
        image: String,
        /// The end of the segment that does not fit.
        end: u64,
        /// The end of RAM.
        ram: u64,
        /// Its end with the most memory that such a machine can have.
        most: u64,
    },
    /// A segment is in an address range that an image may not use.
    #[error(
        "{image}: its segment {first:#x}-{last:#x} is not in RAM that it may use, which is below \
         {low:#x} and from 0x100000 on: link it elsewhere"
    )]
    Outside {
        /// The file.
        image: String,
        /// The segment's first address.
        first: u64,
        /// The segment's last address.
        last: u64,
        /// The end of the RAM below 1 MiB that an image may use.
        low: u64,
    },
    /// The command line is longer than the kernel takes.
    #[error(
        "the command line of {image} has {len} bytes, and it takes {most}: shorten it (--append)"
    )]
    CommandLine {
        /// The file.
        image: String,
        /// The bytes of the command line.
        len: usize,
        /// The most bytes.
        most: usize,
    },
    /// The command line, and those of modules, do not fit into the area for them.
    #[error(
        "the command line of {image}, with those of its modules, needs {needed} bytes, and there is room for {room}: shorten it"
    )]
    Information {
        /// The file.
        image: String,
        /// The bytes that they need, with the rest of the information.
        needed: usize,
        /// The bytes of the area.
        room: usize,
    },
    /// A file has another length than when it was opened.
    #[error(
        "{file} had {before} bytes and now has {now}: it must not change until the guest has started"
    )]
    Changed {
        /// The file.
        file: String,
        /// The length in bytes when it was opened.
        before: u64,
        /// The length now.
        now: u64,
    },
    /// Guest memory could not be written.
    #[error("cannot write {what} of {image} to guest memory")]
    Memory {
        /// The file.
        image: String,
        /// The part of the image.
        what: &'static str,
        /// The error of the write.
        source: vm_memory::GuestMemoryError,
    },
}

impl ImageError {
    /// A part of a file that was to be copied into the memory of a guest for `image`.
    pub(super) fn copy(file: &str, image: &str, what: &'static str, error: CopyError) -> Self {
        match error {
            CopyError::Changed { before, now } => Self::Changed {
                file: file.to_owned(),
                before,
                now,
            },
            CopyError::Memory(source) => Self::Memory {
                image: image.to_owned(),
                what,
                source,
            },
        }
    }
}

/// The end of a message about too little memory for `needed` bytes, which ends with more if it can be enough: `most`.
fn advice(needed: u64, most: u64) -> String {
    match needed <= most {
        true => ": give the machine more memory (--memory)".to_owned(),
        false => format!(", and no machine has more than {most} bytes"),
    }
}

/// An offset, the bytes there, and the CPU for which the kernel is (Linux `Documentation/arch/arm64/booting.rst`,
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

/// The program that unpacks these bytes with `-dc`, if they are compressed.
pub(super) fn unpacker(bytes: &[u8]) -> Option<&'static str> {
    let format = COMPRESSED
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic));
    format.map(|(_, program)| *program)
}

/// The CPU for which these bytes are a kernel, if it is not x86.
pub(super) fn cpu(bytes: &[u8]) -> Option<&'static str> {
    let has = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let kernel = KERNELS.iter().find(|(at, magic, _)| has(*at, magic));
    kernel.map(|(_, _, cpu)| *cpu)
}

/// Why these bytes, which are neither an ELF nor a bzImage nor for a Multiboot loader, are not an image.
pub(super) fn refusal(image: String, bytes: &[u8]) -> ImageError {
    if let Some(advice) = uki::advice(&image, bytes) {
        return ImageError::Unified { image, advice };
    }
    if let Some(cpu) = cpu(bytes) {
        return ImageError::OtherCpu { image, cpu };
    }
    if let Some(program) = unpacker(bytes) {
        return ImageError::Compressed { image, program };
    }
    ImageError::NotAnImage { image }
}

#[cfg(test)]
#[path = "error_test.rs"]
mod tests;
