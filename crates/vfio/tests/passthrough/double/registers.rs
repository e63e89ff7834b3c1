//! The registers of QEMU's edu, in a memory file that a guest can map.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use rustix::fs::{MemfdFlags, memfd_create};
use vm_memory::{GuestMemoryBackend, VolatileMemory};
use vmbell::memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmbell_vfio::device::Device;

use super::{BAR, Space};

/// The value that identifies the device.
pub const IDENT: u32 = 0x0100_00ed;
/// The interrupts that are raised.
pub const STATUS: u64 = 0x24;
/// Raises interrupts.
pub const RAISE: u64 = 0x60;
/// Acknowledges interrupts.
pub const ACK: u64 = 0x64;
const LIVENESS: u64 = 0x04;
const SOURCE: u64 = 0x80;
const DESTINATION: u64 = 0x88;
const COUNT: u64 = 0x90;
const COMMAND: u64 = 0x98;
/// The device's own memory for DMA, as its DMA addresses it.
pub const BUFFER: u64 = 0x4_0000;
const BUFFER_SIZE: u64 = 4096;

/// Begins a transfer of at most 4096 bytes between the device's own buffer and guest memory at an address that the
/// device sees. With `to_memory` it writes to guest memory.
pub fn start_dma(device: &Device, address: u64, len: u64, to_memory: bool) {
    let (source, destination) = if to_memory {
        (BUFFER, address)
    } else {
        (address, BUFFER)
    };
    let command = 1 | u64::from(to_memory) << 1;
    let words = [
        (SOURCE, source),
        (DESTINATION, destination),
        (COUNT, len),
        (COMMAND, command),
    ];
    for (at, word) in words {
        device.write(0, at, &word.to_le_bytes()).unwrap();
    }
}

/// The registers.
#[derive(Debug)]
pub struct Registers {
    file: Arc<File>,
    memory: GuestMemoryMmap,
}

impl Registers {
    pub fn new() -> Self {
        let file = Arc::new(File::from(
            memfd_create("edu", MemfdFlags::CLOEXEC).unwrap(),
        ));
        file.set_len(BAR).unwrap();
        let place = FileOffset::from_arc(Arc::clone(&file), 0);
        let ranges = [(GuestAddress(0), BAR as usize, Some(place))];
        let registers = Self {
            file,
            memory: GuestMemoryMmap::from_ranges_with_files(ranges).unwrap(),
        };
        registers.reset();
        registers
    }

    pub const fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub fn reset(&self) {
        for at in [STATUS, RAISE, ACK, COMMAND] {
            self.swap(at, 0);
        }
        self.swap(0, IDENT);
    }

    /// Reads registers.
    pub fn read(&self, at: u64, data: &mut [u8]) {
        self.memory.read_slice(data, GuestAddress(at)).unwrap();
    }

    /// Writes registers, without doing what the write asks for.
    pub fn write(&self, at: u64, data: &[u8]) {
        match at {
            // Read-only.
            0 | STATUS => {}
            LIVENESS => {
                let inverted: Vec<_> = data.iter().map(|byte| !byte).collect();
                self.memory
                    .write_slice(&inverted, GuestAddress(at))
                    .unwrap();
            }
            _ => self.memory.write_slice(data, GuestAddress(at)).unwrap(),
        }
    }

    pub fn get(&self, at: u64) -> u32 {
        self.word(at, |word| word.load(SeqCst))
    }

    fn swap(&self, at: u64, value: u32) -> u32 {
        self.word(at, |word| word.swap(value, SeqCst))
    }

    fn word<T>(&self, at: u64, with: impl FnOnce(&AtomicU32) -> T) -> T {
        let slice = self.memory.get_slice(GuestAddress(at), 4).unwrap();
        with(slice.get_atomic_ref(0).unwrap())
    }

    fn long(&self, at: u64) -> u64 {
        self.memory.read_obj(GuestAddress(at)).unwrap()
    }

    /// Does what the registers ask for, and returns the function's interrupt if that may have changed.
    pub fn work(&self, space: Option<&Space>) -> Option<bool> {
        // The order matters: before a thread raises an interrupt, it has stored the acknowledgement of the last one.
        let raised = self.swap(RAISE, 0);
        let acknowledged = self.swap(ACK, 0);
        if self.get(COMMAND) & 1 != 0 {
            self.transfer(space);
            self.word(COMMAND, |word| word.fetch_and(!1, SeqCst));
        }
        if acknowledged | raised == 0 {
            return None;
        }
        let status = self.get(STATUS) & !acknowledged | raised;
        self.swap(STATUS, status);
        // If only some of the reasons are gone, the interrupt does not change.
        let is_less = raised == 0 && status != 0;
        (!is_less).then_some(status != 0)
    }

    /// One transfer between memory and the buffer, as far as the device reaches the memory.
    fn transfer(&self, space: Option<&Space>) {
        let to_memory = self.get(COMMAND) & 2 != 0;
        let (source, destination) = (self.long(SOURCE), self.long(DESTINATION));
        let (inside, address) = if to_memory {
            (source, destination)
        } else {
            (destination, source)
        };
        let (count, end) = (self.long(COUNT), BUFFER + BUFFER_SIZE);
        let Some(space) = space.filter(|_| inside >= BUFFER && inside + count <= end) else {
            return;
        };
        let mut data = vec![0; usize::try_from(count).unwrap()];
        if to_memory {
            self.read(inside, &mut data);
            space.write(address, &data);
        } else if space.read(address, &mut data) {
            self.memory
                .write_slice(&data, GuestAddress(inside))
                .unwrap();
        }
    }
}
