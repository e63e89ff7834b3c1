//! The window: memory of the host that the guest sees as BAR 2 of an `ivshmem-plain` device. It begins with a header,
//! followed by the archive of the run. The host writes both before the guest continues.
//!
//! A Linux inside another Linux has no window: it reads both from a vsock connection to its host.

/// The PCI device of the window, as sysfs names it.
pub const DEVICE: &str = "0000:00:1e.0";
/// The slot of the window on the board's root bus.
pub const SLOT: &str = "0x1e";
/// The slot of the panic device (`pvpanic-pci`). A write to that device stops the machine.
pub const PANIC_SLOT: &str = "0x1d";
/// The path of the loader in the initramfs, for `rdinit`.
pub const LOADER_FILE: &str = "/lab/loader";
/// The vsock port of the host to which a loader without a window connects when it is ready for the header and the
/// archive.
pub const PORT: u32 = 1023;
/// The description of the machine inside this Linux. If the file exists, [`INIT_FILE`] starts that machine. It runs the
/// loader a second time, for the files of the run, when that machine's own loader is ready.
pub const NESTED_FILE: &str = "/lab/nested/machine.json";
/// The program that the loader becomes.
pub const INIT_FILE: &str = "/lab/vmbell-lab-init";
/// What could not be mounted or loaded: one line each, with a verb, a name and the number of an error.
pub const NOTES_FILE: &str = "/lab/notes";
/// The folder of the board's modules. They are loaded in the order of their names.
pub const MODULE_FOLDER: &str = "/lab/modules";
/// The folder of the modules for the channels to a Linux inside or around this one. They are loaded after the board's.
pub const CHANNEL_MODULE_FOLDER: &str = "/lab/channel-modules";
/// The folder of the modules of one run, loaded last.
pub const EXTRA_MODULE_FOLDER: &str = "/lab/extra-modules";
/// The [`Header`] of a machine that is not saved and has no window: the files of the run are in its initramfs.
pub const HEADER_FILE: &str = "/lab/header";
/// A busybox. [`COMMAND_FOLDER`] has a link for each of its commands.
pub const BUSYBOX_FILE: &str = "/lab/busybox";
/// The folder of the busybox's links.
pub const COMMAND_FOLDER: &str = "/lab/bin";

/// Printed on the console before the loader's reason to end the machine.
pub const LAST_WORDS: &str = "lab: loader: ";

/// The loader's reason if the machine's time has skipped ahead while it was stopped.
pub const TIME_SKIPPED: &str = "QEMU skipped time when it stopped the machine";

/// Where the archive begins in the window.
pub const ARCHIVE: usize = 4096;
/// The first bytes of a header.
const MAGIC: u64 = u64::from_le_bytes(*b"vmbell\0\x01");

/// What a run tells the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the archive in bytes.
    pub length: u64,
    /// The time of day in nanoseconds since the epoch; 0 leaves the clock as it is.
    pub clock: u64,
    /// Whether programs are loaded at the same addresses each time.
    pub fixed_addresses: bool,
    /// Whether the machine's clock counts instructions.
    pub counted: bool,
    /// The seed of the kernel's random numbers.
    pub seed: [u8; 32],
}

impl Header {
    /// The length of a header in bytes.
    pub const SIZE: usize = Self::WORDS + 32;
    /// The length of the header before the seed.
    const WORDS: usize = 40;

    /// The length of the archive; `usize::MAX` if it does not fit into this machine's memory.
    pub fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    /// The header in the window's format.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let words = [
            MAGIC,
            self.length,
            self.clock,
            u64::from(self.fixed_addresses),
            u64::from(self.counted),
        ];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes[Self::WORDS..].copy_from_slice(&self.seed);
        bytes
    }

    /// Reads the header in these bytes; `None` if they are not a header.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.first_chunk()?;
        let (words, seed) = bytes.split_at(Self::WORDS);
        let word = |index: usize| {
            let bytes = words.get(index * 8..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        (word(0)? == MAGIC).then_some(Self {
            length: word(1)?,
            clock: word(2)?,
            fixed_addresses: word(3)? != 0,
            counted: word(4)? != 0,
            seed: *seed.first_chunk()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            length: 18 << 20,
            clock: 1_900_000_000_000_000_123,
            fixed_addresses: true,
            counted: false,
            seed: core::array::from_fn(|index| index.to_le_bytes()[0]),
        };
        assert_eq!(Header::from_bytes(&header.to_bytes()), Some(header));
        let moved = Header {
            fixed_addresses: false,
            counted: true,
            ..header
        };
        assert_eq!(Header::from_bytes(&moved.to_bytes()), Some(moved));
    }

    #[test]
    fn zeros_and_a_part_of_a_header_are_none() {
        assert_eq!(Header::from_bytes(&[0; Header::SIZE]), None);
        let whole = Header {
            length: 1,
            clock: 0,
            fixed_addresses: false,
            counted: false,
            seed: [1; 32],
        }
        .to_bytes();
        assert_eq!(Header::from_bytes(&whole[..Header::SIZE - 1]), None);
    }
}
