//! The double's file.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::JoinHandle;

use vmbell_vfio::device::{DeviceFile, DeviceInfo, SetIrqs};

use super::{BAR, CONFIG, Edu, PERIOD};

/// VFIO_DEVICE_FLAGS_RESET and VFIO_DEVICE_FLAGS_PCI or _PLATFORM.
const FLAGS: [u32; 2] = [1 | 1 << 2, 1 | 1 << 1];
/// The offset of the configuration space in the file. It is never mapped.
const CONFIG_OFFSET: u64 = 1 << 40;

/// An open file.
#[derive(Debug)]
pub struct Handle {
    edu: Arc<Edu>,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    pub fn new(edu: Arc<Edu>) -> Self {
        let closed = Arc::new(AtomicBool::new(false));
        let (theirs, device) = (Arc::clone(&closed), Arc::clone(&edu));
        let look = move || {
            while !theirs.load(SeqCst) {
                device.look(&mut device.lock());
                std::thread::sleep(PERIOD);
            }
        };
        let thread = std::thread::Builder::new().name("edu".into()).spawn(look);
        Self {
            edu,
            closed,
            thread: Some(thread.unwrap()),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.closed.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.edu.close();
    }
}

impl DeviceFile for Handle {
    fn info(&self) -> io::Result<DeviceInfo> {
        let interrupts = &self.edu.lock().interrupts;
        Ok(DeviceInfo {
            flags: FLAGS[usize::from(interrupts.is_pci())],
            regions: if interrupts.is_pci() { 9 } else { 1 },
            irqs: interrupts.count(),
        })
    }

    fn region_info(&self, index: u32, _room: usize) -> io::Result<Vec<u8>> {
        // VFIO_REGION_INFO_FLAG_READ, _WRITE and _MMAP.
        let (flags, size, offset) = match index {
            0 => (7, BAR, 0),
            CONFIG => (3, 256, CONFIG_OFFSET),
            1..=6 => (0, 0, 0),
            _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        let head = [32_u32, flags, index, 0].map(u32::to_ne_bytes);
        let tail = [size, offset].map(u64::to_ne_bytes);
        Ok([head.concat(), tail.concat()].concat())
    }

    fn irq_info(&self, index: u32) -> io::Result<(u32, u32)> {
        self.edu.lock().interrupts.info(index)
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        self.edu.check()?;
        let mut state = self.edu.lock();
        self.edu.look(&mut state);
        let result = state.interrupts.set(&self.edu.me, request);
        drop(state);
        result.map(drop)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.edu.check()?;
        let mut state = self.edu.lock();
        if let Some(at) = offset.checked_sub(CONFIG_OFFSET) {
            let at = usize::try_from(at).unwrap();
            data.copy_from_slice(&state.config[at..at + data.len()]);
            return Ok(());
        }
        self.edu.look(&mut state);
        self.edu.registers.read(offset, data);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.edu.check()?;
        let mut state = self.edu.lock();
        if let Some(at) = offset.checked_sub(CONFIG_OFFSET) {
            let at = usize::try_from(at).unwrap();
            state.config[at..at + data.len()].copy_from_slice(data);
            return Ok(());
        }
        self.edu.registers.write(offset, data);
        self.edu.look(&mut state);
        Ok(())
    }

    fn reset(&self) -> io::Result<()> {
        self.edu.reset();
        Ok(())
    }

    fn mappable(&self) -> Arc<File> {
        Arc::clone(self.edu.registers.file())
    }
}
