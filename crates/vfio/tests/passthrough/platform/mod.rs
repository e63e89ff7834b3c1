//! The core with the kernel's VFIO and a clock PL031, a platform device with one level-triggered interrupt, in the lab.

mod classic;
mod cpus;
mod forwarded;
mod given_back;
mod guest;
mod killed;
mod module;
mod node;
mod refused;
mod registers;
mod states;
mod undone;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vmbell::sync::{Mutex, MutexGuard};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaSpace;
use vmbell_vfio::kernel::Vfio;

use testbed::await_that;
use testbed::chain;

/// The device's name in sysfs.
const CLOCK: &str = "9010000.pl031";
/// The time of the alarm, in seconds.
pub const ALARM: u32 = 0x1000;

/// Registers: the alarm's time, the time, the mask, the raised interrupt before and after the mask, and the register
/// that clears it.
pub const MATCH: u64 = 0x04;
pub const LOAD: u64 = 0x08;
pub const MASK: u64 = 0x10;
pub const RAW: u64 = 0x14;
pub const MASKED: u64 = 0x18;
pub const CLEAR: u64 = 0x1c;
/// The first of eight registers that identify the device.
pub const IDENT: u64 = 0xfe0;

/// The device is opened by one test at a time.
static DEVICE: Mutex<()> = Mutex::new(());

/// Keeps other tests from the device.
pub fn alone_with_clock() -> MutexGuard<'static, ()> {
    DEVICE.lock()
}

/// The folder of the device.
pub fn sysfs() -> PathBuf {
    let folder = Path::new("/sys/bus/amba/devices").join(CLOCK);
    assert!(
        folder.exists(),
        "there is no device {CLOCK}: run this by `vmbell lab --arch aarch64 --device pl031 --memory 2G -- \
         PROGRAM --ignored kvm::`"
    );
    folder
}

/// The clock, which no other test has as long as this exists.
pub struct Clock {
    pub device: Arc<Device>,
    vfio: Vfio,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Clock {
    /// Opens the clock, with its alarm off.
    pub fn open() -> Self {
        let alone = alone_with_clock();
        Self {
            _alone: Some(alone),
            ..Self::again().unwrap_or_else(|error| panic!("{}", chain(&error)))
        }
    }

    /// Opens the clock for a test that is alone with it already.
    pub fn again() -> Result<Self, PassthroughError> {
        let folder = sysfs();
        let vfio = Vfio::open(&folder)?;
        let device = vfio.device(&folder, None)?;
        Ok(Self {
            device: Arc::new(device),
            vfio,
            _alone: None,
        })
    }

    /// The addresses that the device sees.
    pub fn space(&self) -> Arc<dyn DmaSpace> {
        self.vfio.dma_space()
    }

    /// Lets the clock's alarm interrupt.
    pub fn prepare(&self) {
        for (register, value) in [(MATCH, ALARM), (CLEAR, 1), (MASK, 1)] {
            self.write(register, value);
        }
    }

    /// Raises the alarm, and tries again until it is raised: QEMU's clock loses an alarm at the turn of a second
    /// (docs/emulator-bugs.md).
    pub fn raise(&self) {
        await_that("the alarm", || {
            self.write(LOAD, ALARM);
            self.read(RAW) == 1
        });
    }

    pub fn read(&self, register: u64) -> u32 {
        let mut word = [0; 4];
        self.device.read(0, register, &mut word).unwrap();
        u32::from_le_bytes(word)
    }

    pub fn write(&self, register: u64, word: u32) {
        let written = self.device.write(0, register, &word.to_le_bytes());
        written.unwrap();
    }

    /// Reads the eight bytes that identify the clock.
    pub fn ident(&self) -> u64 {
        let byte = |index: u64| self.read(IDENT + 4 * index) as u8;
        u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(byte))
    }
}
