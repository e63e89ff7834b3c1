//! What a file is that cannot be booted: most often a kernel for another CPU, or one that has to be unpacked first.

use super::ImageError;

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

/// Why these bytes, which are neither an ELF nor a bzImage nor for a Multiboot loader, are no image.
pub(super) fn refusal(image: String, bytes: &[u8]) -> ImageError {
    if let Some(cpu) = cpu(bytes) {
        return ImageError::OtherCpu { image, cpu };
    }
    if let Some(program) = unpacker(bytes) {
        return ImageError::Compressed { image, program };
    }
    ImageError::NotAnImage { image }
}

#[cfg(test)]
#[path = "foreign_test.rs"]
mod tests;
