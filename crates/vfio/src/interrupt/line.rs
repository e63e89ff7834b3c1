//! One interrupt line of a device: INTx of PCI, or any line of a platform device, level-triggered or an edge.
//!
//! The host masks a level-triggered line each time it is signalled. An irqfd with a resample eventfd raises the GSI.
//! The guest's EOI signals the resample eventfd, which is also the device's unmask eventfd, so the VMM does nothing for
//! an interrupt. The irqfd is registered first and removed last. No signal between two steps is lost, because an irqfd
//! and an unmask eventfd also count earlier signals.

use std::sync::Arc;

use super::vmm_line::VmmLine;
use crate::device::Device;
use crate::error::{PassthroughError, PassthroughErrorKind};
use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
use vmbell::irq::{Gsi, IrqError};
use vmbell_hypervisor::{AssignedDevices, Error, ForwardedInterrupt, ForwardedState, Irqfd, Irqs};

/// What raises an interrupt in the guest, and what unmasks it at the device when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterruptPath {
    /// An irqfd delivers the interrupt, which is an edge. The device is not told of its end.
    Irqfd,
    /// An irqfd delivers the interrupt, and the guest's EOI unmasks it through the resample eventfd.
    Resample,
    /// The guest takes and ends the interrupt without an exit to the host: the host's interrupt controller ties it to
    /// an interrupt of the guest.
    Forwarded,
    /// A thread of the VMM delivers the interrupt, and the guest's next access to the device ends it.
    Vmm {
        /// Why there is no shorter path.
        reason: String,
    },
}

/// An interrupt of a device as a GSI of the guest, until the value is dropped.
#[derive(Debug)]
pub struct Line {
    device: Arc<Device>,
    index: u32,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Irqfd(Wire),
    Forwarded(Box<dyn ForwardedInterrupt>),
    Vmm(VmmLine, String),
}

impl Line {
    /// Connects interrupt index `index`, which has one interrupt, to `gsi`: by irqfd if the backend can, otherwise by a thread
    /// of the VMM.
    pub fn connect(
        device: &Arc<Device>,
        index: u32,
        irqs: &Arc<dyn Irqs>,
        gsi: Gsi,
    ) -> Result<Self, PassthroughError> {
        match Wire::register(device, index, irqs, gsi) {
            Ok(wire) => Self::start(device, index, Way::Irqfd(wire)),
            Err(PassthroughError {
                kind: PassthroughErrorKind::Backend(Error::Irq(IrqError::NoResample)),
                ..
            }) => {
                let reason = IrqError::NoResample.to_string();
                Self::through_vmm(device, index, irqs, gsi, reason)
            }
            Err(error) => Err(error),
        }
    }

    /// Connects the interrupt through a thread of the VMM, even if the backend can do it by irqfd.
    pub fn through_vmm(
        device: &Arc<Device>,
        index: u32,
        irqs: &Arc<dyn Irqs>,
        gsi: Gsi,
        reason: String,
    ) -> Result<Self, PassthroughError> {
        let line = VmmLine::start(device, index, irqs, gsi)?;
        Self::start(device, index, Way::Vmm(line, reason))
    }

    /// Forwards the interrupt to the line `gsi`: the guest ends it without the host. Fails if the backend or the host
    /// cannot forward it. All vCPUs of the guest must exist before.
    pub fn forward(
        device: &Arc<Device>,
        index: u32,
        backend: &dyn AssignedDevices,
        gsi: Gsi,
    ) -> Result<Self, PassthroughError> {
        device.irq(index)?;
        // As in `start`: a line that was signalled before may still be masked.
        let _ = device.unmask(index, 0);
        let forwarded = backend.forward_interrupt(&device.descriptor(), index, gsi)?;
        Ok(Self {
            device: Arc::clone(device),
            index,
            way: Way::Forwarded(forwarded),
        })
    }

    /// Makes the device signal its interrupts. This is the last step, since an interrupt may come before the call
    /// returns.
    fn start(device: &Arc<Device>, index: u32, way: Way) -> Result<Self, PassthroughError> {
        let line = Self {
            device: Arc::clone(device),
            index,
            way,
        };
        // A platform line that was given back between its signal and its end is still masked. A PCI line never is, and
        // the kernel then refuses this request.
        let _ = device.unmask(index, 0);
        match &line.way {
            Way::Irqfd(Wire { irqfd, resample }) => {
                device.set_triggers(index, 0, &[Some(irqfd.event())])?;
                if let Some(resample) = resample {
                    device.set_unmask(index, 0, Some(resample))?;
                }
            }
            Way::Forwarded(_) => {}
            Way::Vmm(vmm, _) => device.set_triggers(index, 0, &[Some(vmm.trigger())])?,
        }
        Ok(line)
    }

    /// What raises the interrupt in the guest.
    pub fn path(&self) -> InterruptPath {
        match &self.way {
            Way::Irqfd(Wire { resample: None, .. }) => InterruptPath::Irqfd,
            Way::Irqfd(_) => InterruptPath::Resample,
            Way::Forwarded(_) => InterruptPath::Forwarded,
            Way::Vmm(_, reason) => InterruptPath::Vmm {
                reason: reason.clone(),
            },
        }
    }

    /// Whether the VMM has to see the guest's accesses to the device, and call [`accessed`](Self::accessed) for each.
    pub const fn needs_accesses(&self) -> bool {
        matches!(self.way, Way::Vmm(..))
    }

    /// Ends the interrupt if the VMM has handed it on: the guest has accessed the device, as its handler does. The line
    /// is lowered and unmasked; if the device still asserts it, it rises again.
    ///
    /// # Errors
    ///
    /// The line could not be raised before, or cannot be lowered or unmasked now. After the first two errors the line
    /// is unmasked, so that the device's next interrupt is tried.
    pub fn accessed(&self) -> Result<(), PassthroughError> {
        match &self.way {
            Way::Vmm(line, _) => line.end(),
            Way::Irqfd(_) | Way::Forwarded(_) => Ok(()),
        }
    }

    /// Returns what the interrupt has done, if it is forwarded.
    pub fn forwarded(&self) -> Option<Result<ForwardedState, vmbell_hypervisor::Error>> {
        match &self.way {
            Way::Forwarded(forwarded) => Some(forwarded.state()),
            Way::Irqfd(_) | Way::Vmm(..) => None,
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if matches!(self.way, Way::Forwarded(_)) {
            // VFIO refuses requests about an interrupt that is forwarded, and has no eventfd for it.
            return;
        }
        // No caller can receive an error, and closing the device does all of this again.
        if let Way::Irqfd(Wire {
            resample: Some(_), ..
        }) = &self.way
        {
            let _ = self.device.set_unmask(self.index, 0, None);
        }
        let _ = self.device.disable(self.index);
    }
}

/// An irqfd, and the resample eventfd of a level-triggered one.
#[derive(Debug)]
struct Wire {
    irqfd: Irqfd,
    resample: Option<EventFd>,
}

impl Wire {
    fn register(
        device: &Device,
        index: u32,
        irqs: &Arc<dyn Irqs>,
        gsi: Gsi,
    ) -> Result<Self, PassthroughError> {
        let is_level = device.irq(index)?.automasked;
        let made = || eventfd(EFD_NONBLOCK);
        let trigger = Arc::new(made()?);
        let resample = is_level.then(made).transpose()?;
        let irqfd = irqs.register_irqfd(&trigger, gsi, resample.as_ref())?;
        Ok(Self { irqfd, resample })
    }
}

pub(super) fn eventfd(flags: i32) -> Result<EventFd, PassthroughError> {
    EventFd::new(flags).map_err(PassthroughError::system("an interrupt", "make an eventfd"))
}
