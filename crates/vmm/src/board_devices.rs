//! The devices that boards of both architectures have: virtio devices with MMIO registers, plugged in with the
//! doorbells of their notifications and acknowledgements and with their lines, and the serial port, whose interrupt is
//! an irqfd.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use vmbell::bus::BusRange;
use vmbell::irq::Gsi;
use vmbell_devices::SERIAL_GSI;
use vmbell_devices::virtio::mmio::{Interrupt, Location, VirtioMmio};
use vmbell_devices::virtio::vhost::Worker;
use vmbell_devices::virtio::{Handler, Notify, Raise, VirtioConfig};
use vmbell_hypervisor::{Error, IrqTrigger, Irqs, Vm};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::off::{Off, Switch};
use super::{Machine, MachineError};

/// The position of a device, with what its user has chosen.
pub(super) struct MmioPlace<'m> {
    pub(super) machine: &'m Machine,
    /// It is turned if the device's line fails.
    pub(super) switch: &'m Arc<Switch>,
    pub(super) location: Location,
    pub(super) config: VirtioConfig,
}

impl MmioPlace<'_> {
    /// Plugs in a device with this number of queues, which threads of this process serve.
    pub(super) fn plug<D: Handler + 'static>(
        self,
        handler: D,
        queues: u16,
    ) -> Result<(), MachineError> {
        let (memory, config) = (self.machine.vm().memory(), self.config);
        let backlog = self.machine.backlog.clone();
        self.plug_made(D::NAME, |interrupt| {
            VirtioMmio::with_threads(memory, handler, queues, config, interrupt, backlog)
        })
    }

    /// Plugs in a device whose queues a worker serves.
    pub(super) fn plug_worker<W: Worker + 'static>(self, worker: W) -> Result<(), MachineError> {
        let (memory, config) = (self.machine.vm().memory(), self.config);
        self.plug_made(W::NAME, |interrupt| {
            VirtioMmio::with_worker(memory, worker, config, interrupt)
        })
    }

    fn plug_made(
        &self,
        device: &'static str,
        make: impl FnOnce(Interrupt) -> io::Result<VirtioMmio>,
    ) -> Result<(), MachineError> {
        let made = self.connected(device, make);
        let made = made.map_err(|source| MachineError::Virtio { device, source })?;
        let range = BusRange::new(self.location.address, Location::LEN)?;
        Ok(self.machine.mmio.insert(range, Arc::new(made))?)
    }

    /// Makes the device, with its line and its doorbells.
    fn connected(
        &self,
        device: &'static str,
        make: impl FnOnce(Interrupt) -> io::Result<VirtioMmio>,
    ) -> Result<VirtioMmio, Error> {
        let mut interrupt = Interrupt::new(Some(self.trigger(device)?));
        if self.config.notify == Notify::Exit {
            return make(interrupt).map_err(resources);
        }
        interrupt.acknowledge_by_doorbell().map_err(resources)?;
        let mut made = make(interrupt).map_err(resources)?;
        made.register_doorbells(&**self.machine.vm(), self.location.address)?;
        Ok(made)
    }

    /// What raises the line.
    fn trigger(&self, device: &'static str) -> Result<Box<dyn IrqTrigger>, Error> {
        let vm = self.machine.vm();
        let gsi = Gsi::new(self.location.gsi)?;
        if self.config.raise == Raise::Call {
            return Ok(Box::new(Edge {
                irqs: vm.clone(),
                gsi,
                device,
                switch: Arc::clone(self.switch),
                pulse: Mutex::new(()),
            }));
        }
        let irqfd = Arc::new(EventFd::new(EFD_NONBLOCK).map_err(resources)?);
        Ok(Box::new(vm.register_irqfd(&irqfd, gsi, None)?))
    }
}

fn resources(source: io::Error) -> Error {
    Error::System {
        operation: "set the device up",
        source,
    }
}

/// A line that calls raise and take down.
struct Edge {
    irqs: Arc<dyn Irqs>,
    gsi: Gsi,
    device: &'static str,
    switch: Arc<Switch>,
    /// A line that one thread has up has no edge for another.
    pulse: Mutex<()>,
}

impl IrqTrigger for Edge {
    fn signal(&self) {
        let _alone = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        for level in [true, false] {
            if let Err(error) = self.irqs.set_line(self.gsi, level) {
                return self.switch.turn(Off::failed(self.device, error));
            }
        }
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Edge").field(&self.gsi).finish()
    }
}

/// An irqfd of the serial port's line.
pub(super) fn serial_irqfd(vm: &Arc<dyn Vm>) -> Result<Box<dyn IrqTrigger>, MachineError> {
    let connect = || {
        let event = EventFd::new(EFD_NONBLOCK).map_err(|source| Error::System {
            operation: "make an eventfd",
            source,
        })?;
        vm.register_irqfd(&Arc::new(event), Gsi::new(SERIAL_GSI)?, None)
    };
    Ok(Box::new(connect().map_err(MachineError::Serial)?))
}
