//! The devices that boards of both architectures have: virtio devices with MMIO registers, plugged in with the
//! doorbells of their notifications and acknowledgements and with their lines, and the serial port, whose interrupt is
//! an irqfd.

use std::fmt;
use std::io;
use std::sync::Arc;

use vmbell::bus::BusRange;
use vmbell::irq::Gsi;
use vmbell::sync::Mutex;
use vmbell_devices::SERIAL_GSI;
use vmbell_devices::virtio::mmio::{Interrupt, Location, VirtioMmio, register};
use vmbell_devices::virtio::{Notify, Raise, VirtioDevice};
use vmbell_hypervisor::{Error, IrqTrigger, Irqs, Vm};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::MachineError;
use super::machine::Machine;
use super::off::{Off, Switch};

/// The position of a device.
pub(super) struct MmioPlace<'m> {
    pub(super) machine: &'m Machine,
    /// The switch to turn if the device's line fails.
    pub(super) switch: &'m Arc<Switch>,
    pub(super) location: Location,
}

impl MmioPlace<'_> {
    /// Plugs in a virtio device.
    pub(super) fn plug(self, device: VirtioDevice) -> Result<(), MachineError> {
        let name = device.name();
        let made = self.connected(device);
        let made = made.map_err(|source| MachineError::Virtio {
            device: name,
            source,
        })?;
        let range = BusRange::new(self.location.address, register::LEN)?;
        Ok(self.machine.mmio.insert(range, Arc::new(made))?)
    }

    /// Makes the device's registers, line and doorbells.
    fn connected(&self, device: VirtioDevice) -> Result<VirtioMmio, Error> {
        let (machine, notify) = (self.machine, device.config().notify);
        let mut interrupt = Interrupt::new(self.trigger(&device)?);
        let has_doorbells = matches!(notify, Notify::Doorbell | Notify::Poll);
        if has_doorbells {
            interrupt.acknowledge_by_doorbell().map_err(resources)?;
        }
        let (memory, backlog) = (machine.vm().memory(), machine.backlog.clone());
        let made = VirtioMmio::new(device, memory, interrupt, backlog);
        let mut made = made.map_err(resources)?;
        if has_doorbells {
            made.register_doorbells(&**machine.vm(), self.location.address)?;
        }
        Ok(made)
    }

    /// Makes what raises the device's line.
    fn trigger(&self, device: &VirtioDevice) -> Result<Box<dyn IrqTrigger>, Error> {
        let vm = self.machine.vm();
        let gsi = Gsi::new(self.location.gsi)?;
        if device.config().raise == Raise::Call {
            return Ok(Box::new(Edge {
                irqs: vm.clone(),
                gsi,
                device: device.name(),
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

/// A line that is raised and lowered by calls.
struct Edge {
    irqs: Arc<dyn Irqs>,
    gsi: Gsi,
    device: &'static str,
    switch: Arc<Switch>,
    /// Held during a pulse: raising a line that another thread has raised makes no edge.
    pulse: Mutex<()>,
}

impl IrqTrigger for Edge {
    fn signal(&self) {
        let _alone = self.pulse.lock();
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

/// Makes an irqfd of the serial port's line.
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
