//! QEMU's pc-testdev (`hw/misc/pc-testdev.c`), with which kvm-unit-tests drives interrupt lines and tests the emulation
//! of port and memory accesses.
//!
//! It has four parts, each a device on a bus: a [latch](TestLatch) of four bytes on ports, [interrupt
//! lines](TestLines), a port that takes a [page](TestFlush) out of the guest's page tables on the host, and
//! [memory](TestMemory) that always exits on access. All run on the thread of the vCPU that accesses them.
//!
//! ```
//! use std::sync::Arc;
//! use vmbell::bus::{Bus, BusRange};
//! use vmbell_devices::pc_testdev::{TEST_LATCH_LEN, TEST_LATCH_PORTS, TestLatch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ports = Bus::new();
//! let [first, _] = TEST_LATCH_PORTS;
//! ports.insert(BusRange::new(first, TEST_LATCH_LEN)?, Arc::new(TestLatch::default()))?;
//! let mut vcpu = ports.reader();
//! let mut byte = [0];
//! assert!(vcpu.write(first, &[7]) && vcpu.read(first, &mut byte));
//! assert_eq!(byte, [7]);
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use vmbell::bus::BusDevice;
use vmbell::irq::Gsi;
use vmbell::sync::Mutex;
use vmbell_hypervisor::{Error, Irqs};

/// The ports of the latch. Its two ranges show the same bytes.
pub const TEST_LATCH_PORTS: [u64; 2] = [0xe0, 0xe8];
/// How many ports each range of the latch has.
pub const TEST_LATCH_LEN: u64 = LATCH as u64;
/// The first port of the page flush.
pub const TEST_FLUSH_PORTS: u64 = 0xe4;
/// How many ports the page flush has.
pub const TEST_FLUSH_LEN: u64 = 4;
/// The first port of the interrupt lines.
pub const TEST_LINE_PORTS: u64 = 0x2000;
/// How many interrupt lines there are, one on each port.
pub const TEST_LINES: u64 = 24;
/// Guest-physical address of the memory.
pub const TEST_MEMORY_BASE: u64 = 0xff00_0000;
/// Size of the memory in bytes.
pub const TEST_MEMORY_LEN: u64 = MEMORY as u64;

/// Sizes of the latch and of the memory in bytes.
const LATCH: usize = 4;
const MEMORY: usize = 0x1_0000;
const PAGE: u64 = 4096;

/// Four bytes that keep what the guest writes, at any width.
#[derive(Debug, Default)]
pub struct TestLatch([AtomicU8; LATCH]);

impl BusDevice for TestLatch {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (byte, kept) in data.iter_mut().zip(self.0.iter().skip(from)) {
            *byte = kept.load(Ordering::Relaxed);
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (byte, kept) in data.iter().zip(self.0.iter().skip(from)) {
            kept.store(*byte, Ordering::Relaxed);
        }
    }
}

/// Called with the error of a request that failed.
type OnError<E> = Box<dyn Fn(E) + Send + Sync>;

/// The interrupt lines. A byte written to the port of a line sets the level of the GSI with the line's number: low if
/// the byte is 0, otherwise high. Each byte of a wider write is for its own line.
pub struct TestLines {
    irqs: Arc<dyn Irqs>,
    on_error: OnError<Error>,
}

impl TestLines {
    /// Creates lines to the interrupt controllers of `irqs`. Calls `on_error` if a level cannot be set.
    pub fn new(irqs: Arc<dyn Irqs>, on_error: impl Fn(Error) + Send + Sync + 'static) -> Self {
        let on_error = Box::new(on_error);
        Self { irqs, on_error }
    }
}

impl BusDevice for TestLines {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        for (line, byte) in (offset..TEST_LINES).zip(data) {
            let gsi = u32::try_from(line).unwrap_or(u32::MAX);
            let set = Gsi::new(gsi).map_err(Error::from);
            let set = set.and_then(|gsi| self.irqs.set_line(gsi, *byte != 0));
            if let Err(error) = set {
                (self.on_error)(error);
            }
        }
    }
}

impl fmt::Debug for TestLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestLines")
    }
}

/// The page flush. Four bytes written to its first port are the guest-physical address of a page that the host must
/// fault in again at the next access. The page's contents stay, and the guest sees no difference.
pub struct TestFlush<F>(F);

impl<F: Fn(u64) + Send + Sync> TestFlush<F> {
    /// Creates a port that calls `flush` with the guest-physical address of the page.
    pub const fn new(flush: F) -> Self {
        Self(flush)
    }
}

impl<F: Fn(u64) + Send + Sync> BusDevice for TestFlush<F> {
    fn read(&self, _offset: u64, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        if let (0, Ok(address)) = (offset, <[u8; 4]>::try_from(data)) {
            (self.0)(u64::from(u32::from_le_bytes(address)) & !(PAGE - 1));
        }
    }
}

impl<F> fmt::Debug for TestFlush<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestFlush")
    }
}

/// Memory that is a device: each access leaves the guest, so that the instruction is emulated.
#[derive(Debug)]
pub struct TestMemory(Mutex<Box<[u8]>>);

impl TestMemory {}

impl Default for TestMemory {
    fn default() -> Self {
        Self(Mutex::new(vec![0; MEMORY].into_boxed_slice()))
    }
}

impl BusDevice for TestMemory {
    fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0xff);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (byte, kept) in data.iter_mut().zip(self.0.lock().iter().skip(from)) {
            *byte = *kept;
        }
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (byte, kept) in data.iter().zip(self.0.lock().iter_mut().skip(from)) {
            *kept = *byte;
        }
    }
}

#[cfg(test)]
#[path = "pc_testdev_test.rs"]
mod tests;
