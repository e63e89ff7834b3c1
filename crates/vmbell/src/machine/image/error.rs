//! Why an image cannot be booted, and what to do about it.

use std::io;

/// What is wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("cannot read image {image}")]
    Read {
        /// The file.
        image: String,
        /// Why not.
        source: io::Error,
    },
    /// Neither an ELF nor anything with a Multiboot header.
    #[error(
        "{image} is no ELF and has no multiboot header in its first 8192 bytes: give an image for \
         a multiboot 1 loader, such as kvm-unit-tests' x86/vmexit.flat"
    )]
    NotAnImage {
        /// The file.
        image: String,
    },
    /// An ELF for somebody else.
    #[error(
        "{image} is an ELF without a multiboot header in its first 8192 bytes: it is not made to \
         be booted without firmware; link it with a multiboot 1 header at its start"
    )]
    NotMultiboot {
        /// The file.
        image: String,
    },
    /// A header without addresses in a file without any.
    #[error(
        "{image} has a multiboot header without addresses (bit 16 of its flags) and is no ELF, so \
         nothing says where it goes: keep the ELF, or set the address fields"
    )]
    NotElf {
        /// The file.
        image: String,
    },
    /// The header wants what there is not.
    #[error(
        "{image} requires {what} of its loader (bits {bits:#06x} of its multiboot flags), which \
         this machine does not have: build it without"
    )]
    Requirement {
        /// The file.
        image: String,
        /// In words.
        what: &'static str,
        /// The bits.
        bits: u32,
    },
    /// The header's addresses make no sense.
    #[error("{image}: the addresses of its multiboot header make no sense: {what}")]
    Addresses {
        /// The file.
        image: String,
        /// What of them.
        what: &'static str,
    },
    /// The ELF is broken.
    #[error("{image} is a broken ELF")]
    Elf {
        /// The file.
        image: String,
        /// What of it.
        source: object::read::Error,
    },
    /// A segment that the file does not have.
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
        /// `e_machine`.
        machine: u16,
    },
    /// Nothing to load.
    #[error("{image} has no segment to load")]
    Empty {
        /// The file.
        image: String,
    },
    /// The entry point is in no segment or not in 32 bits.
    #[error("{image} begins at {entry:#x}, which is in none of its segments below 4 GiB")]
    Entry {
        /// The file.
        image: String,
        /// Where.
        entry: u64,
    },
    /// RAM ends too early.
    #[error(
        "{image} needs memory up to {end:#x}, and the machine's ends at {ram:#x}: give it more \
         (--memory)"
    )]
    TooLarge {
        /// The file.
        image: String,
        /// Where its last segment ends.
        end: u64,
        /// Where RAM does.
        ram: u64,
    },
    /// A segment where it cannot be.
    #[error(
        "{image}: its segment {first:#x}-{last:#x} is not in RAM that it may use, which is below \
         {low:#x} and from 0x100000 on: link it elsewhere"
    )]
    Outside {
        /// The file.
        image: String,
        /// First address.
        first: u64,
        /// Last address.
        last: u64,
        /// Where low RAM ends.
        low: u64,
    },
    /// The command line and the environment do not fit in their place.
    #[error(
        "the command line and the environment file of {image} need {needed} bytes, and there is \
         room for {room}: shorten them"
    )]
    Information {
        /// The file.
        image: String,
        /// How much they need.
        needed: usize,
        /// How much there is.
        room: usize,
    },
    /// Guest memory refused.
    #[error("cannot write {what} of {image} to guest memory")]
    Memory {
        /// The file.
        image: String,
        /// What of it.
        what: &'static str,
        /// Why not.
        source: vm_memory::GuestMemoryError,
    },
}
