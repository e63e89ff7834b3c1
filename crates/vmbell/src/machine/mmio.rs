//! Plugs virtio devices with MMIO registers into a machine: the doorbells of their notifications and acknowledgements, and
//! their lines.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::off::{Off, Switch};
use super::{Machine, MachineError};
use crate::bus::BusRange;
use crate::device::virtio::Handler;
use crate::device::virtio::mmio::{Interrupt, Location, VirtioMmio, register};
use crate::device::virtio::{Notify, Raise, VirtioConfig};
use crate::doorbell::{Datamatch, IoEventAddress, Sharing};
use crate::hypervisor::{Error, IrqTrigger, Irqs, Vm};
use crate::irq::Gsi;

/// Plugs a device with so many queues in at `location`. `switch` is turned if its line fails.
pub(super) fn plug<V: Vm, D: Handler + 'static>(
    machine: &Machine<V>,
    switch: &Arc<Switch>,
    location: Location,
    (handler, queues): (D, u16),
    config: VirtioConfig,
) -> Result<(), MachineError> {
    let vm = machine.vm();
    // Doorbells of writes of these values to registers.
    let doorbell = |event: &EventFd, register: u64, value: u32| {
        let address = IoEventAddress::Mmio(location.address + register);
        let value = Datamatch::U32(Some(value));
        vm.register_ioevent(event, address, value, Sharing::Exclusive)
    };
    let connect = || {
        let mut interrupt = Interrupt::new(Some(trigger(vm, switch, D::NAME, location, config)?));
        if config.notify == Notify::Doorbell {
            let acknowledged = interrupt.acknowledge_by_doorbell().map_err(resources)?;
            let value = Interrupt::ACKNOWLEDGE;
            doorbell(&acknowledged, register::INTERRUPT_ACK, value)?;
        }
        let (memory, backlog) = (vm.memory(), machine.backlog.clone());
        let device = VirtioMmio::with_threads(memory, handler, queues, config, interrupt, backlog);
        let device = device.map_err(resources)?;
        for index in 0..queues {
            if let Some(kick) = device.kick(index) {
                doorbell(kick, register::QUEUE_NOTIFY, index.into())?;
            }
        }
        Ok(device)
    };
    let device = connect().map_err(|source| MachineError::Virtio {
        device: D::NAME,
        source,
    })?;
    let range = BusRange::new(location.address, Location::LEN)?;
    Ok(machine.mmio.insert(range, Arc::new(device))?)
}

/// What raises the line.
fn trigger<V: Vm>(
    vm: &Arc<V>,
    switch: &Arc<Switch>,
    device: &'static str,
    location: Location,
    config: VirtioConfig,
) -> Result<Box<dyn IrqTrigger>, Error> {
    let gsi = Gsi::new(location.gsi)?;
    if config.raise == Raise::Call {
        return Ok(Box::new(Edge {
            irqs: vm.clone(),
            gsi,
            device,
            switch: Arc::clone(switch),
            pulse: Mutex::new(()),
        }));
    }
    let irqfd = EventFd::new(EFD_NONBLOCK).map_err(resources)?;
    vm.register_irqfd(&irqfd, gsi, None)?;
    vm.irq_trigger(&irqfd)
}

fn resources(source: io::Error) -> Error {
    Error::System {
        operation: "make an eventfd or a thread",
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
