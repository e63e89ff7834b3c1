use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PLATFORM, VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD,
    VFIO_IRQ_INFO_MASKABLE,
};

use super::*;
use crate::device::{Action, DeviceFile, DeviceInfo, SetIrqs};
use kit::wait::await_that;
use vmbell::irq::{ForwardedLine, IrqError, Msi, Route};
use vmbell_hypervisor::{Error, Irqfd};

/// A device with one level-triggered interrupt, and how many times the interrupt was unmasked.
#[derive(Debug, Default)]
struct OneLine {
    unmasked: Arc<AtomicU32>,
}

impl DeviceFile for OneLine {
    fn info(&self) -> io::Result<DeviceInfo> {
        Ok(DeviceInfo {
            flags: VFIO_DEVICE_FLAGS_PLATFORM,
            regions: 0,
            irqs: 1,
        })
    }

    fn region_info(&self, _index: u32, _room: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn irq_info(&self, _index: u32) -> io::Result<(u32, u32)> {
        let flags = VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED;
        Ok((flags, 1))
    }

    fn set_irqs(&self, request: &SetIrqs<'_>) -> io::Result<()> {
        if request.action == Action::Unmask {
            self.unmasked.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn read(&self, _offset: u64, _data: &mut [u8]) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, _offset: u64, _data: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn reset(&self) -> io::Result<()> {
        Ok(())
    }

    fn mappable(&self) -> Arc<File> {
        unreachable!("the device has no regions")
    }
}

/// A guest with one line.
#[derive(Default)]
struct Guest {
    is_up: Mutex<bool>,
    /// The eventfd that the device signals again just as the line goes down.
    trigger: Mutex<Option<EventFd>>,
    /// The level that the line refuses, and how many more times it does.
    refuses: Mutex<Option<(bool, u32)>>,
    refused: AtomicU32,
}

impl Guest {
    fn is_up(&self) -> bool {
        *self.is_up.lock()
    }
}

impl Irqs for Guest {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        _: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        Ok(Irqfd::new(event, gsi, None, |_| Ok(())))
    }

    fn set_routing(&self, _: &[Route]) -> Result<(), Error> {
        Ok(())
    }

    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error> {
        if let Some((refused, left)) = &mut *self.refuses.lock()
            && *refused == level
            && *left > 0
        {
            *left -= 1;
            self.refused.fetch_add(1, Relaxed);
            return Err(IrqError::NoLine { gsi }.into());
        }
        *self.is_up.lock() = level;
        if let Some(trigger) = self.trigger.lock().take_if(|_| !level) {
            trigger.write(1).unwrap();
            // Gives the line's thread time to notice the signal.
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, _: Msi) -> Result<bool, Error> {
        Ok(true)
    }
}

/// Connects a line of this guest, and counts how many times its device's interrupt is unmasked.
fn connected(guest: &Arc<Guest>) -> (VmmLine, Arc<AtomicU32>) {
    let irqs: Arc<dyn Irqs> = guest.clone();
    let one_line = OneLine::default();
    let unmasked = Arc::clone(&one_line.unmasked);
    let device = Arc::new(Device::new("level", Box::new(one_line)).unwrap());
    let line = VmmLine::start(&device, 0, &irqs, Gsi::new(5).unwrap()).unwrap();
    (line, unmasked)
}

#[test]
fn line_that_is_gone_is_down_although_its_device_has_signalled_again() {
    let guest = Arc::new(Guest::default());
    let (line, _) = connected(&guest);
    *guest.trigger.lock() = Some(line.trigger().try_clone().unwrap());
    line.trigger().write(1).unwrap();
    await_that("the line to be up", || guest.is_up());
    drop(line);
    assert!(!guest.is_up());
}

#[test]
fn interrupt_that_cannot_be_raised_or_lowered_is_told_and_the_next_one_comes() {
    for refused in [true, false] {
        let guest = Arc::new(Guest {
            refuses: Mutex::new(Some((refused, 1))),
            ..Guest::default()
        });
        let (line, unmasked) = connected(&guest);
        line.trigger().write(1).unwrap();
        await_that("the line to be driven", || {
            guest.is_up() || guest.refused.load(Relaxed) > 0
        });
        let error = line.end().unwrap_err().to_string();
        assert!(error.contains("gsi 5"), "level {refused}: {error}");
        assert_eq!(unmasked.load(Relaxed), 1);
        line.end().unwrap();
        assert_eq!(unmasked.load(Relaxed), 1, "it has ended");
        *guest.is_up.lock() = false;
        line.trigger().write(1).unwrap();
        await_that("the line to be up", || guest.is_up());
        line.end().unwrap();
        assert_eq!((guest.is_up(), unmasked.load(Relaxed)), (false, 2));
    }
}
