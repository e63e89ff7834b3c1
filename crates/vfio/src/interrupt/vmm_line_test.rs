use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PLATFORM, VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD,
    VFIO_IRQ_INFO_MASKABLE,
};

use super::*;
use crate::device::{DeviceFile, DeviceInfo, SetIrqs};
use crate::wait::await_that;
use vmbell::irq::{ForwardedLine, IrqError, Msi, Route};
use vmbell_hypervisor::{Error, Irqfd};

/// A device with one level-triggered interrupt.
#[derive(Debug)]
struct Level;

impl DeviceFile for Level {
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

    fn set_irqs(&self, _request: &SetIrqs<'_>) -> io::Result<()> {
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

/// A guest whose line the device signals again just as it goes down.
#[derive(Default)]
struct Guest {
    is_up: Mutex<bool>,
    trigger: Mutex<Option<EventFd>>,
}

impl Guest {
    fn is_up(&self) -> bool {
        *self.is_up.lock().unwrap()
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

    fn set_line(&self, _: Gsi, level: bool) -> Result<(), Error> {
        *self.is_up.lock().unwrap() = level;
        if let Some(trigger) = self.trigger.lock().unwrap().take_if(|_| !level) {
            trigger.write(1).unwrap();
            // Time for the line's thread to hear that.
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

#[test]
fn line_that_is_gone_is_down_although_its_device_has_signalled_again() {
    let guest = Arc::new(Guest::default());
    let irqs: Arc<dyn Irqs> = guest.clone();
    let device = Arc::new(Device::new("level", Box::new(Level)).unwrap());
    let line = VmmLine::start(&device, 0, &irqs, Gsi::new(5).unwrap()).unwrap();
    *guest.trigger.lock().unwrap() = Some(line.trigger().try_clone().unwrap());
    line.trigger().write(1).unwrap();
    await_that("the line to be up", || guest.is_up());
    drop(line);
    assert!(!guest.is_up());
}
