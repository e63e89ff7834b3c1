//! A row's turn with the device: the row's guest has it until the turn is dropped.

use std::sync::Arc;

use super::super::guest::{ScenarioFailure, ScenarioGuest};
use super::super::notify::pin_to;
use super::super::wiring::{InterruptSource, Wiring};
use super::assigned::{OpenedDevice, REGISTERS};
use super::case::{DeviceSignal, PassthroughCase};
use super::hardware::MSI;
use crate::affinity::Pinned;
use crate::{SubjectError, SubjectOptions};
use vmbell::irq::Msi;
use vmbell::sync::Mutex;
use vmbell_devices::Listener;
use vmbell_devices::pci::Routes;
use vmbell_guest::{Interrupts, PARAMETERS, VECTOR};
use vmbell_hypervisor::{Capability, ForwardedState, Hypervisor, Irqs, VmConfig};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::interrupt::{InterruptPath, Vectors};
use vmbell_vfio::placed::{self, Access, Handover, Place, Placed, Wire};

/// The address of the device's registers, where the guest has no memory.
pub(super) const ADDRESS: u64 = 0xd000_0000;
/// The guest's memory: enough for its program, because all of it is pinned for the device during a turn.
const MEMORY: u64 = 2 << 20;

/// A guest that gets the device for its runs.
pub(super) struct DeviceGuest {
    pub(super) case: PassthroughCase,
    pub(super) assigned: Arc<OpenedDevice>,
    pub(super) guest: ScenarioGuest,
    place: Place,
    wiring: Wiring,
}

/// A turn. The device's message is dropped before the rest.
pub(super) struct DeviceTurn {
    #[allow(dead_code, reason = "kept until the turn ends")]
    message: Option<MessageWay>,
    placed: Placed,
    /// Why an access by the guest failed.
    failed: Arc<Mutex<Option<PassthroughError>>>,
}

#[allow(dead_code, reason = "kept until the turn ends")]
enum MessageWay {
    Irqfd(Vectors),
    Userspace(MessageRelay),
}

impl DeviceGuest {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        assigned: Arc<OpenedDevice>,
        case: PassthroughCase,
        options: &SubjectOptions,
    ) -> Result<Self, SubjectError> {
        let name = case.name();
        let place = Place {
            region: REGISTERS,
            address: ADDRESS,
            access: match hypervisor.support(Capability::MovableDeviceMemory).is_yes() {
                _ if !case.is_mapped() => Access::Emulated,
                true => Access::Mapped,
                false => Access::MappedFromStart,
            },
        };
        let memory = placed::device_memory(&assigned.device, &[place])
            .map_err(|error| SubjectError::failed(name, error))?;
        let config = VmConfig {
            ram_size: MEMORY,
            device_memory: memory,
            irqchip: case.irqchip(),
            spin: options.spin,
            vcpu_cpus: vec![options.first_cpu()],
            ..VmConfig::default()
        };
        let guest = ScenarioGuest::with_config(hypervisor, name, case.program(), config, options)?;
        let source = match case {
            PassthroughCase::Access { .. } => InterruptSource::Itself,
            _ if case.handover().is_some() => InterruptSource::Level,
            _ => InterruptSource::Message,
        };
        let wiring = Wiring::new(guest.machine.vm().as_ref(), source, name)?;
        let owner = Self {
            case,
            assigned,
            guest,
            place,
            wiring,
        };
        owner.route().map_err(|error| owner.guest.failed(error))?;
        Ok(owner)
    }

    fn route(&self) -> Result<(), ScenarioFailure> {
        let machine = &self.guest.machine;
        Interrupts {
            pv_eoi: true,
            ..self.wiring.interrupts
        }
        .write(machine.vm().memory(), PARAMETERS)?;
        if self.case.handover().is_some() {
            self.wiring.connect(machine.vm().as_ref())?;
        }
        Ok(())
    }

    /// Gives the device to the guest. Threads that this starts run on the CPU of the other side.
    pub(super) fn begin(&self) -> Result<DeviceTurn, SubjectError> {
        self.put().map_err(|error| self.guest.failed(error))
    }

    fn put(&self) -> Result<DeviceTurn, ScenarioFailure> {
        let _pinned = Pinned::to(&[self.guest.other_cpu])?;
        let (vm, device) = (self.guest.machine.vm(), &self.assigned.device);
        device.enable()?;
        let failed = Arc::new(Mutex::new(None));
        let report = Arc::clone(&failed);
        let guest = placed::Guest {
            memory: vm.memory(),
            mmio: &self.guest.machine.mmio,
            backend: vm.clone(),
            irqs: vm.clone(),
            on_error: Arc::new(move |error| {
                *report.lock() = Some(error);
            }),
        };
        let wires = self.wire()?;
        let space = self.assigned.dma_space();
        let placed = Placed::new(
            Arc::clone(device),
            space,
            &guest,
            &[self.place],
            wires.as_slice(),
        )?;
        for path in placed.paths() {
            check(&path, self.case)?;
        }
        (self.case.model().prepare)(device)?;
        let irqs: Arc<dyn Irqs> = vm.clone();
        Ok(DeviceTurn {
            message: self.message(irqs)?,
            placed,
            failed,
        })
    }

    /// The device's line, which is its first interrupt, if the case uses the line.
    fn wire(&self) -> Result<Vec<Wire>, ScenarioFailure> {
        let Some(handover) = self.case.handover() else {
            return Ok(Vec::new());
        };
        Ok(vec![Wire {
            index: 0,
            gsi: self.wiring.gsi(self.case.name())?,
            handover,
        }])
    }

    /// The device's message, if the case uses the message.
    fn message(&self, irqs: Arc<dyn Irqs>) -> Result<Option<MessageWay>, ScenarioFailure> {
        let PassthroughCase::Interrupt {
            signal: DeviceSignal::Message,
            irqfd,
        } = self.case
        else {
            return Ok(None);
        };
        let (device, message) = (&self.assigned.device, Msi::fixed(0, VECTOR));
        if !irqfd {
            let relay = MessageRelay::start(device, irqs, message, self.guest.other_cpu)?;
            return Ok(Some(MessageWay::Userspace(relay)));
        }
        let mut vectors = Vectors::enable(device, MSI, 1, &Routes::new(irqs, Vec::new()))?;
        vectors.set(0, Some(message))?;
        Ok(Some(MessageWay::Irqfd(vectors)))
    }
}

/// Fails unless the line is delivered in the way that the row measures.
fn check(path: &InterruptPath, case: PassthroughCase) -> Result<(), ScenarioFailure> {
    match (path, case.handover()) {
        (InterruptPath::Resample, Some(Handover::Irqfd))
        | (InterruptPath::Forwarded, Some(Handover::Forwarded))
        | (InterruptPath::Vmm { .. }, Some(Handover::Vmm)) => Ok(()),
        (path, _) => Err(format!("its line is delivered in another way: {path:?}").into()),
    }
}

impl DeviceTurn {
    /// Fails if an access by the guest has failed.
    pub(super) fn check(&self) -> Result<(), ScenarioFailure> {
        let mut failed = self.failed.lock();
        failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// What the device's interrupt has done so far, if it is forwarded.
    pub(super) fn forwarded(&self) -> Result<Option<ForwardedState>, ScenarioFailure> {
        Ok(self.placed.forwarded()?.into_iter().next())
    }
}

/// A thread that forwards the device's messages to the guest until this value is dropped.
struct MessageRelay {
    device: Arc<Device>,
    _listener: Listener,
}

impl MessageRelay {
    fn start(
        device: &Arc<Device>,
        irqs: Arc<dyn Irqs>,
        message: Msi,
        cpu: usize,
    ) -> Result<Self, ScenarioFailure> {
        let heard = move || {
            // A message that is refused never arrives, and then the run does not end.
            let _ = irqs.signal_msi(message);
            false
        };
        let listener = Listener::start(pin_to(cpu), heard)?;
        device.set_triggers(MSI, 0, &[Some(listener.event())])?;
        Ok(Self {
            device: Arc::clone(device),
            _listener: listener,
        })
    }
}

impl Drop for MessageRelay {
    fn drop(&mut self) {
        // A drop cannot report an error. If this fails, the end of the turn disables the message.
        let _ = self.device.disable(MSI);
    }
}
