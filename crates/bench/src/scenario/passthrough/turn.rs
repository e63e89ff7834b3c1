//! A row's turn with the device: it is in the row's guest until this is dropped.

use std::sync::{Arc, Mutex, PoisonError};

use super::super::guest::{Failure, Guest};
use super::super::notify::pin_to;
use super::super::wiring::{Source, Wiring};
use super::assigned::{Assigned, REGISTERS};
use super::case::{Case, Signal};
use super::models::MSI;
use crate::affinity::Pinned;
use crate::{Options, SubjectError};
use vmbell::irq::Msi;
use vmbell_devices::Listener;
use vmbell_devices::pci::Routes;
use vmbell_guest::{Interrupts, PARAMETERS, VECTOR};
use vmbell_hypervisor::{Capability, ForwardedState, Hypervisor, Irqs, VmConfig};
use vmbell_vfio::PassthroughError;
use vmbell_vfio::device::Device;
use vmbell_vfio::interrupt::{InterruptPath, Vectors};
use vmbell_vfio::placed::{self, Access, Handover, Place, Placed, Wire};

/// Where the guest has the device's registers; it has no memory there.
pub(super) const ADDRESS: u64 = 0xd000_0000;
/// The guest's memory: enough for its program, since the device has all of it pinned during a turn.
const MEMORY: u64 = 2 << 20;

/// A guest that gets the device for its runs.
pub(super) struct Owner {
    pub(super) case: Case,
    pub(super) assigned: Arc<Assigned>,
    pub(super) guest: Guest,
    place: Place,
    wiring: Wiring,
}

/// The turn. The device's message goes before the rest of it.
pub(super) struct Turn {
    #[allow(dead_code, reason = "kept until the turn ends")]
    message: Option<Message>,
    placed: Placed,
    /// Why an access of the guest has failed.
    failed: Arc<Mutex<Option<PassthroughError>>>,
}

#[allow(dead_code, reason = "kept until the turn ends")]
enum Message {
    Irqfd(Vectors),
    Userspace(Relay),
}

impl Owner {
    pub(super) fn new(
        hypervisor: &dyn Hypervisor,
        assigned: Arc<Assigned>,
        case: Case,
        options: &Options,
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
        let guest = Guest::with_config(hypervisor, name, case.program(), config, options)?;
        let source = match case {
            Case::Access { .. } => Source::Itself,
            _ if case.handover().is_some() => Source::Level,
            _ => Source::Message,
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

    fn route(&self) -> Result<(), Failure> {
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

    /// Puts the device into the guest. Threads that this starts are on the CPU of the other side.
    pub(super) fn begin(&self) -> Result<Turn, SubjectError> {
        self.put().map_err(|error| self.guest.failed(error))
    }

    fn put(&self) -> Result<Turn, Failure> {
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
                *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
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
        Ok(Turn {
            message: self.message(irqs)?,
            placed,
            failed,
        })
    }

    /// The device's line, which is its first interrupt, if it interrupts by that.
    fn wire(&self) -> Result<Vec<Wire>, Failure> {
        let Some(handover) = self.case.handover() else {
            return Ok(Vec::new());
        };
        Ok(vec![Wire {
            index: 0,
            gsi: self.wiring.gsi(self.case.name())?,
            handover,
        }])
    }

    /// The device's message, if it interrupts by that.
    fn message(&self, irqs: Arc<dyn Irqs>) -> Result<Option<Message>, Failure> {
        let Case::Interrupt {
            signal: Signal::Message,
            irqfd,
        } = self.case
        else {
            return Ok(None);
        };
        let (device, message) = (&self.assigned.device, Msi::fixed(0, VECTOR));
        if !irqfd {
            let relay = Relay::start(device, irqs, message, self.guest.other_cpu)?;
            return Ok(Some(Message::Userspace(relay)));
        }
        let mut vectors = Vectors::enable(device, MSI, 1, &Routes::new(irqs, Vec::new()))?;
        vectors.set(0, Some(message))?;
        Ok(Some(Message::Irqfd(vectors)))
    }
}

/// Fails unless the line is handed on in the way that the row measures.
fn check(path: &InterruptPath, case: Case) -> Result<(), Failure> {
    match (path, case.handover()) {
        (InterruptPath::Resample, Some(Handover::Irqfd))
        | (InterruptPath::Forwarded, Some(Handover::Forwarded))
        | (InterruptPath::Vmm { .. }, Some(Handover::Vmm)) => Ok(()),
        (path, _) => Err(format!("its line is handed on in another way: {path:?}").into()),
    }
}

impl Turn {
    /// Fails if an access of the guest has failed.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// What the device's interrupt has done if it is forwarded.
    pub(super) fn forwarded(&self) -> Result<Option<ForwardedState>, Failure> {
        Ok(self.placed.forwarded()?.into_iter().next())
    }
}

/// A thread that takes the device's messages and sends them to the guest, until this is dropped.
struct Relay {
    device: Arc<Device>,
    _listener: Listener,
}

impl Relay {
    fn start(
        device: &Arc<Device>,
        irqs: Arc<dyn Irqs>,
        message: Msi,
        cpu: usize,
    ) -> Result<Self, Failure> {
        let heard = move || {
            // A message that is refused is never taken, and then the run does not end.
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

impl Drop for Relay {
    fn drop(&mut self) {
        // A drop cannot report an error, and the turn's end disables it again.
        let _ = self.device.disable(MSI);
    }
}
