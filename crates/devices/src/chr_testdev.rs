//! QEMU's character device `testdev` (`backends/testdev.c`) on a virtio console, with which kvm-unit-tests exits: a
//! guest that sends `Nq`, with N in decimal, ends the machine with the exit code N.
//!
//! The console has the legacy interface on MMIO registers (virtio 1.3, 4.2.4), the only one that their driver has:
//! version 1, and a queue in pages whose first page number the driver writes. It has no features, no input and no
//! interrupt. The thread of the vCPU that notifies reads the queue.

use std::fmt;
use std::sync::Arc;

use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::virtio::mmio::register::{
    DEVICE_ID, MAGIC, MAGIC_VALUE, QUEUE_NOTIFY, QUEUE_SEL, QUEUE_SIZE, QUEUE_SIZE_MAX, STATUS,
    VENDOR_ID, VERSION,
};
use vmbell::bus::BusDevice;
use vmbell::sync::Mutex;
use vmbell_virtqueue::{Buffer, Chain, DeviceQueue, Features, SplitDevice, SplitLayout};

/// Offsets of the registers that only the legacy interface has: the size of a page, the alignment of the used ring, and
/// the number of the queue's first page.
const GUEST_PAGE_SIZE: u64 = 0x028;
const QUEUE_ALIGN: u64 = 0x03c;
const QUEUE_PFN: u64 = 0x040;

/// The ID of a console (virtio 1.3, 5).
const CONSOLE: u32 = 3;
/// The queues: input, and output, which the guest sends to.
const QUEUES: usize = 2;
const OUTPUT: u32 = 1;
/// The maximum number of descriptors of a queue.
const SIZE_MAX: u32 = 256;
/// How many bytes of a buffer are read; a code is shorter.
const READ_MAX: usize = 64;

/// The registers of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueRegisters {
    size: u32,
    align: u32,
    page: u32,
}

impl QueueRegisters {
    /// Where the ring is (virtio 1.3, 2.7.2), with pages of this size; `None` if there can be no ring.
    fn layout(self, page_size: u32) -> Option<SplitLayout> {
        let size = u16::try_from(self.size.min(SIZE_MAX)).ok()?;
        let descriptors = u64::from(self.page) * u64::from(page_size);
        let avail = descriptors.checked_add(16 * u64::from(size))?;
        // Flags, index and event index have 2 bytes each, as has each entry.
        let end = avail.checked_add(6 + 2 * u64::from(size))?;
        let used = end.checked_next_multiple_of(self.align.into())?;
        Some(SplitLayout {
            size,
            descriptors,
            avail,
            used,
        })
    }
}

/// What the driver has written to the registers, and what it has sent.
#[derive(Default)]
struct TestdevState {
    status: u32,
    page_size: u32,
    selected: u32,
    queues: [QueueRegisters; QUEUES],
    output: Option<SplitDevice<Arc<GuestMemoryMmap>>>,
    /// The number whose digits were received last.
    code: u32,
}

impl TestdevState {
    fn queue(&mut self) -> Option<&mut QueueRegisters> {
        self.queues.get_mut(usize::try_from(self.selected).ok()?)
    }

    /// Sets the ring to this page. If no ring can be there, the page number stays 0, and the driver can see that.
    fn set_page(&mut self, memory: &Arc<GuestMemoryMmap>, page: u32) {
        let page_size = self.page_size;
        let is_output = self.selected == OUTPUT;
        let Some(queue) = self.queue() else { return };
        queue.page = page;
        let layout = queue.layout(page_size).filter(|_| page > 0);
        let ring =
            layout.and_then(|layout| SplitDevice::new(memory, &layout, Features::default()).ok());
        if ring.is_none() {
            queue.page = 0;
        }
        if is_output {
            self.output = ring;
        }
    }

    /// Returns the exit code, if the guest has sent one. A notification serves at most one ring of chains.
    fn serve(&mut self, memory: &GuestMemoryMmap) -> Option<u32> {
        let output = self.output.as_mut()?;
        let mut chain = Chain::with_capacity(output.size().into());
        let mut code = None;
        for _ in 0..output.size() {
            // A broken ring stays broken until the driver sets it up again.
            let Ok(Some(head)) = output.pop(&mut chain) else {
                break;
            };
            for buffer in chain.readable() {
                code = code.or(end_among(&mut self.code, memory, buffer));
            }
            if output.add_used(head, 0).is_err() {
                break;
            }
        }
        code
    }
}

/// Reads the digits and letters of a buffer, and returns the number before a `q`, if there is one.
fn end_among(code: &mut u32, memory: &GuestMemoryMmap, buffer: &Buffer) -> Option<u32> {
    let mut bytes = [0; READ_MAX];
    let len = usize::try_from(buffer.len).map_or(READ_MAX, |len| len.min(READ_MAX));
    let bytes = &mut bytes[..len];
    memory.read_slice(bytes, GuestAddress(buffer.addr)).ok()?;
    for byte in bytes {
        match byte {
            b'0'..=b'9' => *code = code.wrapping_mul(10).wrapping_add((*byte - b'0').into()),
            b'q' => return Some(std::mem::take(code)),
            _ => *code = 0,
        }
    }
    None
}

/// The testdev console.
pub struct ChrTestdev<F> {
    memory: Arc<GuestMemoryMmap>,
    end: F,
    state: Mutex<TestdevState>,
}

impl<F: Fn(u32) + Send + Sync> ChrTestdev<F> {
    /// Creates a device that calls `end` with the guest's code, on the thread of the vCPU that notifies.
    pub fn new(memory: &GuestMemoryMmap, end: F) -> Self {
        Self {
            memory: Arc::new(memory.clone()),
            end,
            state: Mutex::default(),
        }
    }

    fn get(&self, offset: u64) -> u32 {
        let mut state = self.state.lock();
        match offset {
            MAGIC_VALUE => MAGIC,
            VERSION => 1,
            DEVICE_ID => CONSOLE,
            VENDOR_ID => u32::from_le_bytes(*b"bell"),
            QUEUE_SIZE_MAX => state.queue().map_or(0, |_| SIZE_MAX),
            QUEUE_PFN => state.queue().map_or(0, |queue| queue.page),
            STATUS => state.status,
            _ => 0,
        }
    }

    fn set(&self, offset: u64, value: u32) {
        let mut state = self.state.lock();
        match offset {
            GUEST_PAGE_SIZE => state.page_size = value,
            QUEUE_SEL => state.selected = value,
            QUEUE_PFN => state.set_page(&self.memory, value),
            QUEUE_NOTIFY if value == OUTPUT => {
                let code = state.serve(&self.memory);
                drop(state);
                code.into_iter().for_each(&self.end);
            }
            STATUS if value == 0 => *state = TestdevState::default(),
            STATUS => state.status = value,
            _ => match (offset, state.queue()) {
                (QUEUE_SIZE, Some(queue)) => queue.size = value,
                (QUEUE_ALIGN, Some(queue)) => queue.align = value,
                _ => {}
            },
        }
    }
}

/// Registers are accessed in aligned 4-byte words; any other access reads as 0 and has no effect.
impl<F: Fn(u32) + Send + Sync> BusDevice for ChrTestdev<F> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        match <&mut [u8; 4]>::try_from(&mut *data) {
            Ok(data) if offset.is_multiple_of(4) => *data = self.get(offset).to_le_bytes(),
            _ => data.fill(0),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let Ok(data) = <[u8; 4]>::try_from(data)
            && offset.is_multiple_of(4)
        {
            self.set(offset, u32::from_le_bytes(data));
        }
    }
}

impl<F> fmt::Debug for ChrTestdev<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChrTestdev")
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "chr_testdev_test.rs"]
mod tests;
