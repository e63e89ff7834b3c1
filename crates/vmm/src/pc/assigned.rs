//! Devices of the host that a PC's guest drives itself. They share a container, and with it the guest's memory.
//!
//! If the host asks to have a device back, a thread takes it out of the running guest, as if the device had been pulled
//! out: its configuration space then reads as ones.

use std::fmt;
use std::sync::Arc;

use super::Pc;
use crate::error::BoardError;
use vmbell_devices::pci::PciError;
use vmbell_hypervisor::{AssignedDevices, chain};
use vmbell_vfio::device::Device;
use vmbell_vfio::dma::DmaMap;
use vmbell_vfio::host::HostDevice;
use vmbell_vfio::interrupt::{InterruptPath, RemovalRequest};
use vmbell_vfio::kernel::Vfio;
use vmbell_vfio::pci::{AssignedError, AssignedPci, GuestParts};
use vmbell_vfio::{PassthroughError, PassthroughErrorKind};

/// What happens to an assigned device without ending the run.
#[derive(Debug)]
pub enum AssignedEvent {
    /// Something that the guest asked for could not be done.
    Failed(AssignedError),
    /// An access of the guest to a platform device failed.
    Access(PassthroughErrorKind),
    /// The VMM passes the device's INTx on, and all accesses to the device are exits.
    ThroughVmm {
        /// Why there is no shorter path.
        reason: String,
    },
    /// A BAR is at an address where it cannot be mapped.
    Conflict(PciError),
    /// The host has asked for the device, and the guest has lost it.
    Removed,
}

/// Called with each event, on the thread where the event happens.
pub type OnEvent = Arc<dyn Fn(AssignedEvent) + Send + Sync>;

impl Pc {
    /// Gives the guest a PCI device of the host, which is bound to a driver of VFIO. Without `mmap` its registers are not
    /// mapped, so that every access is an exit.
    ///
    /// # Errors
    /// The guest has the device already, the device cannot be opened, or it cannot be a function of this PC's bus.
    pub fn assign(
        &self,
        host: &HostDevice,
        mmap: bool,
        on_event: &OnEvent,
    ) -> Result<(), BoardError> {
        self.assigned.end_requests();
        let backend: Arc<dyn AssignedDevices> = self.machine.vm().clone();
        let mut state = self.assigned.lock();
        state.check(&host.name)?;
        let vfio = match &state.vfio {
            Some(vfio) => vfio.clone(),
            None => state.vfio.insert(Vfio::open(&host.path)?).clone(),
        };
        let device = Arc::new(vfio.device(&host.path, Some(&backend))?);
        let dma = match state.dma.upgrade() {
            Some(dma) => dma,
            None => Arc::new(DmaMap::new(vfio.dma_space(), self.machine.vm().memory())?),
        };
        state.dma = Arc::downgrade(&dma);
        let guest = GuestParts {
            backend,
            routes: Arc::clone(&self.routes),
            dma,
        };
        state
            .requests
            .extend(self.plug(&device, guest, mmap, on_event)?);
        state.names.push(host.name.clone());
        Ok(())
    }

    /// Puts the device on the bus, and waits for the host to ask for it.
    fn plug(
        &self,
        device: &Arc<Device>,
        guest: GuestParts,
        mmap: bool,
        on_event: &OnEvent,
    ) -> Result<Option<RemovalRequest>, BoardError> {
        let report = Arc::clone(on_event);
        let function = AssignedPci::new(
            Arc::clone(device),
            guest,
            mmap,
            Box::new(move |error| report(AssignedEvent::Failed(error))),
        );
        let function = Arc::new(function.map_err(|source| BoardError::Assign {
            name: device.name().to_owned(),
            source,
        })?);
        let slot = self.pci.add(Arc::clone(&function) as _)?;
        let watched = self.watch(device, &function, slot, on_event);
        if watched.is_err() {
            self.pci.remove(slot);
            function.give_back();
            return watched;
        }
        if let Some(InterruptPath::Vmm { reason }) = function.intx_path() {
            on_event(AssignedEvent::ThroughVmm { reason });
        }
        let report = Arc::clone(on_event);
        self.pci.on_conflict_of(slot, move |conflict| {
            report(AssignedEvent::Conflict(conflict));
        });
        watched
    }

    /// Waits on a thread for the host to ask for the device, and then pulls it out of its slot.
    fn watch(
        &self,
        device: &Arc<Device>,
        function: &Arc<AssignedPci>,
        slot: usize,
        on_event: &OnEvent,
    ) -> Result<Option<RemovalRequest>, BoardError> {
        let (pci, function) = (Arc::downgrade(&self.pci), Arc::downgrade(function));
        let (state, name) = (Arc::downgrade(&self.assigned.0), device.name().to_owned());
        let report = Arc::clone(on_event);
        let asked = move || {
            let (Some(pci), Some(function), Some(state)) =
                (pci.upgrade(), function.upgrade(), state.upgrade())
            else {
                return;
            };
            if pci.remove(slot) {
                // The bus holds the function, and the host waits, until the vCPUs have looked at the bus again.
                function.give_back();
                let mut state = state.lock();
                state.names.retain(|other| *other != name);
                report(AssignedEvent::Removed);
            }
        };
        Ok(RemovalRequest::watch(device, asked)?)
    }
}

impl From<PassthroughError> for BoardError {
    fn from(error: PassthroughError) -> Self {
        Self::Passthrough(Box::new(error))
    }
}

impl fmt::Display for AssignedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => f.write_str(&chain(error)),
            Self::Access(error) => write!(f, "an access of the guest failed: {}", chain(error)),
            Self::Conflict(error) => f.write_str(&chain(error)),
            Self::ThroughVmm { reason } => write!(
                f,
                "a thread of the VMM hands its INTx on, and all accesses to it are exits: {reason}"
            ),
            Self::Removed => f.write_str("the host wants it back, and the guest has lost it"),
        }
    }
}
