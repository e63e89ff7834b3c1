//! The kinds of devices, the request that each gets, and the check that it was answered with real data.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

use super::queue::{Part, Queue};

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rng,
    Blk,
    Console,
    Net,
}

/// The status of a block request that the device has not answered.
const UNANSWERED: u8 = 0xff;
const RANDOM_LEN: usize = 16;
/// The shortest frame, after virtio-net's header of 12 bytes.
pub const FRAME_LEN: usize = 12 + 60;

impl Kind {
    pub const ALL: [Self; 4] = [Self::Rng, Self::Blk, Self::Console, Self::Net];

    /// Finds the kind by virtio's device number (1.2, 5).
    pub fn from_device_type(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Net),
            2 => Some(Self::Blk),
            3 => Some(Self::Console),
            4 => Some(Self::Rng),
            _ => None,
        }
    }

    /// Finds the kind by the PCI device ID, which may be a transitional device's.
    pub fn from_pci(device: u16) -> Option<Self> {
        match device {
            0x1000 => Some(Self::Net),
            0x1001 => Some(Self::Blk),
            0x1003 => Some(Self::Console),
            0x1005 => Some(Self::Rng),
            0x1040.. => Self::from_device_type(u32::from(device) - 0x1040),
            _ => None,
        }
    }

    /// The kind's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rng => "rng",
            Self::Blk => "blk",
            Self::Console => "console",
            Self::Net => "net",
        }
    }

    /// The queue for requests: a console and a network card receive on queue 0 and send on queue 1.
    pub fn queue_index(self) -> u16 {
        match self {
            Self::Rng | Self::Blk => 0,
            Self::Console | Self::Net => 1,
        }
    }

    /// Prepares the request: 16 random bytes; sector 0; one byte to print; a frame without a receiver.
    pub fn prepare(self, queue: &Queue) {
        match self {
            Self::Rng => queue.prepare(&[Part::from_device(&queue.data[..RANDOM_LEN])]),
            // Type 0 is a read; the sector's number is 0.
            Self::Blk => queue.prepare(&[
                Part::to_device(&queue.header[..16]),
                Part::from_device(&queue.data),
                Part::from_device(core::slice::from_ref(&queue.status)),
            ]),
            Self::Console => {
                queue.header[0].store(b'.', Relaxed);
                queue.prepare(&[Part::to_device(&queue.header[..1])]);
            }
            Self::Net => {
                let frame = &queue.header[12..FRAME_LEN];
                // Source and destination are locally administered addresses; the type is the one for experiments.
                for (byte, value) in frame
                    .iter()
                    .zip([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5])
                {
                    byte.store(value, Relaxed);
                }
                queue.prepare(&[Part::to_device(&queue.header[..FRAME_LEN])]);
            }
        }
    }

    /// Clears the old answer before a request whose answer is checked.
    pub fn forget(self, queue: &Queue) {
        queue.status.store(UNANSWERED, Relaxed);
        if self == Self::Rng {
            for byte in &queue.data {
                byte.store(0, Relaxed);
            }
        }
    }

    /// Checks that the last request was answered with plausible data.
    pub fn check(self, queue: &Queue) -> Result<(), &'static str> {
        let first = queue.data[0].load(Relaxed);
        let same = |byte: &AtomicU8| byte.load(Relaxed) == first;
        match self {
            Self::Rng if queue.data[..RANDOM_LEN].iter().all(same) => {
                Err("the random bytes are all the same")
            }
            Self::Blk if queue.status.load(Relaxed) != 0 => Err("the disk reports an error"),
            _ => Ok(()),
        }
    }

    /// Returns a checksum of an answer that must be the same each time: a disk's sector.
    pub fn sum(self, queue: &Queue) -> u64 {
        if self != Self::Blk {
            return 0;
        }
        queue.data.iter().fold(0_u64, |sum, byte| {
            sum.rotate_left(5) ^ u64::from(byte.load(Relaxed))
        })
    }
}
