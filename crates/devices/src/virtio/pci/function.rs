//! The device as a function of a PCI bus, on the threads of the vCPUs that access it.

use std::sync::Arc;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use super::bells::Bells;
use super::interrupts::{InterruptsState, Messages, PciInterrupts};
use super::layout::{self, Capabilities, Part, Space, Window};
use super::{GuestParts, common};
use crate::pci::{
    ConfigSpace, FunctionInfo, FunctionSnapshot, Identity, OwnRegisters, PciFunction, Registers,
    SavedFunction,
};
use crate::snapshot::SnapshotError;
use crate::virtio::config::Notify;
use crate::virtio::device::Control;
use crate::virtio::device::VirtioDevice;
use crate::virtio::driver::Interrupts;
use crate::virtio::driver::Refusal;
use crate::virtio::ring::QUEUE_SIZE_MAX;
use crate::virtio::saved::VirtioState;
use vmbell::irq::Gsi;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_virtqueue::Status;

/// Red Hat's vendor ID, which all virtio devices have, and the device ID for device type 0 (virtio 1.3, 4.1.2).
const VENDOR: u16 = 0x1af4;
const FIRST_DEVICE: u16 = 0x1040;
/// Above 0 for a device without a legacy interface.
const REVISION: u8 = 1;
/// Offsets in configuration space of the registers that the function itself answers for.
const REVISION_AT: usize = 0x08;
const CLASS_AT: usize = 0x0a;
const SUBSYSTEM_VENDOR_AT: usize = 0x2c;
const SUBSYSTEM_AT: usize = 0x2e;

/// The state of a virtio device on a PCI bus.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VirtioPciState {
    device: VirtioState,
    interrupts: InterruptsState,
}

/// A virtio device on a PCI bus.
pub struct VirtioPci {
    // The doorbells are dropped before the threads that they wake.
    bells: Option<Bells>,
    control: Control,
    interrupts: Arc<PciInterrupts>,
    has_ports: bool,
    capabilities: Capabilities,
    window: Mutex<Window>,
}

impl VirtioPci {
    /// Creates a device in the state after a reset. It has a vector for each queue, and one for configuration changes.
    ///
    /// # Errors
    ///
    /// If the process cannot have more descriptors or threads, or if the choices of the device contradict each other:
    /// for example, packed rings with a worker, or
    /// [`notification_data`](crate::virtio::VirtioConfig::notification_data) without a doorbell.
    pub fn new(device: VirtioDevice, guest: GuestParts) -> io::Result<Self> {
        let GuestParts {
            memory,
            events,
            routes,
            backlog,
            on_error,
        } = guest;
        let (config, queues) = (device.config(), device.queues());
        let vectors = queues + 1;
        let messages = Messages::new(routes, config.raise, vectors, Arc::clone(&on_error));
        let interrupts = Arc::new(PciInterrupts::new(messages, vectors, queues));
        let theirs = Arc::clone(&interrupts) as Arc<dyn Interrupts>;
        let control = Control::new(device, memory, theirs, backlog, QUEUE_SIZE_MAX)?;
        let has_ports = config.notify_ports;
        let capabilities = Capabilities::new(queues, control.device().config.len(), has_ports)
            .map_err(io::Error::other)?;
        let bells = match config.notify {
            Notify::Doorbell | Notify::Poll => {
                let server = Arc::clone(control.server());
                Some(Bells::new(server, queues, events, on_error))
            }
            Notify::Exit | Notify::Never => None,
        };
        Ok(Self {
            bells,
            control,
            interrupts,
            has_ports,
            capabilities,
            window: Mutex::default(),
        })
    }

    /// Takes the last refusal; `None` if nothing was refused since the last call.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.control.take_refusal()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock()
    }

    fn update_bells(&self) {
        if let Some(bells) = &self.bells {
            bells.update(|| {
                let registers = self.control.registers();
                let is_live = registers.status.has(Status::DRIVER_OK);
                is_live.then_some(registers.driver_features)
            });
        }
    }

    fn notify(&self, space: Space, offset: u64) {
        if let Some(queue) = layout::notified(offset) {
            self.control.server().notify(queue);
        }
        if let Some(bells) = &self.bells
            && space == Space::Memory
        {
            bells.missed_in_memory();
        }
    }

    fn malformed(&self, source: serde_json::Error) -> SnapshotError {
        let device = self.control.device().name;
        SnapshotError::Malformed { device, source }
    }

    /// The structure at an offset of a BAR, and the offset in the structure.
    fn part(&self, bar: usize, offset: u64) -> Option<(Space, Part, u64)> {
        let space = layout::space(bar, self.has_ports)?;
        let (part, at) = layout::part(space, offset)?;
        Some((space, part, at))
    }
}

/// Vendor, device, and a class that depends on the device's type.
fn identity(device: u32) -> Identity {
    /// The last device type that has a PCI device ID.
    const LAST: u16 = 0x3f;
    let class = match device {
        1 => 0x0200,
        2 => 0x0100,
        _ => 0x00ff,
    };
    Identity {
        vendor: VENDOR,
        device: FIRST_DEVICE + u16::try_from(device).map_or(LAST, |kind| kind.min(LAST)),
        class,
    }
}

impl FunctionSnapshot for VirtioPci {
    fn pause(&self) -> Result<SavedFunction, SnapshotError> {
        let device = self.control.pause()?;
        let interrupts = self.interrupts.save();
        let state = VirtioPciState { device, interrupts };
        serde_json::to_value(state).map_err(|source| self.malformed(source))
    }

    fn restore(&self, state: &SavedFunction) -> Result<(), SnapshotError> {
        let state = VirtioPciState::deserialize(state).map_err(|source| self.malformed(source))?;
        self.control.restore(&state.device)?;
        // After the reset of the device, which clears the vectors.
        if !self.interrupts.restore(&state.interrupts) {
            return Err(SnapshotError::Different {
                device: self.control.device().name,
                what: "the number of its vectors is another".to_owned(),
            });
        }
        self.update_bells();
        Ok(())
    }

    fn resume(&self) {
        self.control.resume();
    }
}

impl PciFunction for VirtioPci {
    fn info(&self) -> FunctionInfo {
        let device = self.control.device();
        FunctionInfo {
            name: device.name,
            identity: identity(device.id),
            bars: layout::bars(device.queues, self.has_ports),
            registers: Registers {
                pin: None,
                capabilities: self.capabilities.list.clone(),
                own: true,
            },
        }
    }

    /// The revision, the class and the subsystem, and what the driver reads through the window.
    fn read_config(&self, offset: usize, data: &mut [u8]) {
        data.fill(0);
        let window = *self.window();
        if let Some((bar, target, len)) = window.target(offset, data.len()) {
            return self.read(bar.into(), target, &mut data[..len]);
        }
        let Identity { device, class, .. } = identity(self.control.device().id);
        let own = [
            (REVISION_AT, [REVISION, 0]),
            (CLASS_AT, class.to_le_bytes()),
            (SUBSYSTEM_VENDOR_AT, VENDOR.to_le_bytes()),
            (SUBSYSTEM_AT, device.to_le_bytes()),
        ];
        for (byte, at) in data.iter_mut().zip(offset..) {
            let found = own
                .iter()
                .find(|(start, _)| (*start..start + 2).contains(&at));
            if let Some((start, value)) = found {
                *byte = value[at - start];
            }
        }
    }

    fn write_config(&self, offset: usize, data: &[u8]) {
        let window = *self.window();
        if let Some((bar, target, len)) = window.target(offset, data.len()) {
            self.write(bar.into(), target, &data[..len]);
        }
    }

    fn configured(&self, config: &ConfigSpace, _intx: Option<Gsi>) -> OwnRegisters {
        let Capabilities { window, msix, .. } = &self.capabilities;
        let window = Window::new(*window, config);
        *self.window() = window;
        let messages = &self.interrupts.messages;
        messages.set_control(msix.control(config));
        match window.is_open() {
            true => OwnRegisters::Live,
            false => OwnRegisters::Still,
        }
    }

    fn read(&self, bar: usize, offset: u64, data: &mut [u8]) {
        let messages = &self.interrupts.messages;
        match self.part(bar, offset) {
            Some((_, Part::Common, at)) => common::read(&self.control, &self.interrupts, at, data),
            Some((_, Part::Isr, 0)) if data.len() == 1 => data[0] = self.interrupts.take_status(),
            Some((_, Part::Config, at)) => self.control.read_config(at, data),
            Some((_, Part::Table, at)) => messages.read(at, data),
            Some((_, Part::Pending, at)) => messages.read_pending(at, data),
            _ => data.fill(0),
        }
    }

    fn write(&self, bar: usize, offset: u64, data: &[u8]) {
        match self.part(bar, offset) {
            Some((_, Part::Common, at)) => {
                common::write(&self.control, &self.interrupts, at, data);
                self.update_bells();
            }
            Some((space, Part::Notify, at)) => self.notify(space, at),
            Some((_, Part::Table, at)) => self.interrupts.messages.write(at, data),
            _ => {}
        }
    }

    fn moved(&self, bar: usize, base: Option<u64>) {
        if let Some(bells) = &self.bells
            && let Some(space) = layout::space(bar, self.has_ports)
        {
            bells.moved(space, base);
        }
    }

    fn reset(&self) {
        self.control.reset(&mut self.control.registers());
        self.interrupts.messages.reset();
        self.update_bells();
    }
}

impl fmt::Debug for VirtioPci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VirtioPci")
            .field("control", &self.control)
            .field("interrupts", &self.interrupts)
            .field("bells", &self.bells)
            .finish_non_exhaustive()
    }
}
