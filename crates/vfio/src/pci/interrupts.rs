//! Which type of interrupt the device uses now, and changes from one type to another. The caller holds a lock.

use std::sync::Arc;

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_MSIX_IRQ_INDEX,
};

use crate::device::Device;
use crate::error::PassthroughError;
use crate::interrupt::{InterruptPath, Line, Vectors};
use vmbell::irq::{Gsi, Msi};
use vmbell_devices::pci::Routes;

/// A type of interrupt, with what the guest has set up for it. A vector without a message is masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Off,
    Intx(Gsi),
    Msi(Vec<Option<Msi>>),
    Msix(Vec<Option<Msi>>),
}

impl Mode {
    /// The change to this mode, for an error.
    pub(super) const fn turned(&self) -> &'static str {
        match self {
            Self::Off => "interrupts off",
            Self::Intx(_) => "INTx on",
            Self::Msi(_) => "MSI on",
            Self::Msix(_) => "MSI-X on",
        }
    }
}

/// The device's interrupts, off at first.
#[derive(Debug)]
pub(super) struct Interrupts {
    wanted: Mode,
    enabled: Enabled,
}

/// What is enabled in the device: at most one type, as in the kernel.
#[derive(Debug)]
enum Enabled {
    Off,
    Intx(Line),
    /// The vectors of MSI or MSI-X.
    Vectors(Vectors),
}

impl Interrupts {
    pub(super) const fn new() -> Self {
        Self {
            wanted: Mode::Off,
            enabled: Enabled::Off,
        }
    }

    /// Changes only what differs from `wanted`. After an error the interrupts are recorded as `wanted` all the same, so
    /// that the guest's next writes do not repeat the error.
    pub(super) fn switch(
        &mut self,
        wanted: Mode,
        device: &Arc<Device>,
        routes: &Arc<Routes>,
    ) -> Result<(), PassthroughError> {
        if self.wanted == wanted {
            return Ok(());
        }
        let before = std::mem::replace(&mut self.wanted, wanted);
        match (&before, &self.wanted, &mut self.enabled) {
            (Mode::Msi(before), Mode::Msi(after), Enabled::Vectors(vectors))
            | (Mode::Msix(before), Mode::Msix(after), Enabled::Vectors(vectors))
                if before.len() == after.len() =>
            {
                let pairs = before.iter().zip(after).enumerate();
                let mut outcome = Ok(());
                for (vector, (_, after)) in pairs.filter(|(_, (before, after))| before != after) {
                    outcome = outcome.and(vectors.set(vector, *after));
                }
                outcome
            }
            _ => {
                // One type is enabled at a time, with a fixed number of vectors.
                self.off();
                self.enabled = enable(&self.wanted, device, routes)?;
                Ok(())
            }
        }
    }

    /// Turns all interrupts off.
    pub(super) fn off(&mut self) {
        self.enabled = Enabled::Off;
    }

    /// What raises INTx in the guest, if INTx is on.
    pub(super) fn intx_path(&self) -> Option<InterruptPath> {
        match &self.enabled {
            Enabled::Intx(line) => Some(line.path()),
            _ => None,
        }
    }

    /// Whether the VMM has to see the guest's accesses, and call [`accessed`](Self::accessed) for each.
    pub(super) const fn needs_accesses(&self) -> bool {
        matches!(&self.enabled, Enabled::Intx(line) if line.needs_accesses())
    }

    /// Ends an interrupt that the VMM has forwarded.
    pub(super) fn accessed(&self) -> Result<(), PassthroughError> {
        match &self.enabled {
            Enabled::Intx(line) => line.accessed(),
            _ => Ok(()),
        }
    }

    /// Whether an interrupt of an MSI vector is pending because the vector is masked.
    pub(super) fn is_msi_pending(&self, vector: u16) -> bool {
        matches!(self.wanted, Mode::Msi(_)) && self.is_pending(vector)
    }

    /// Whether an interrupt of an MSI-X vector is pending because the vector is masked.
    pub(super) fn is_msix_pending(&self, vector: u16) -> bool {
        matches!(self.wanted, Mode::Msix(_)) && self.is_pending(vector)
    }

    fn is_pending(&self, vector: u16) -> bool {
        match &self.enabled {
            Enabled::Vectors(vectors) => vectors.is_pending(vector.into()),
            _ => false,
        }
    }

    /// Changes one vector of MSI-X, if MSI-X is on.
    pub(super) fn set_vector(
        &mut self,
        vector: u16,
        message: Option<Msi>,
    ) -> Result<(), PassthroughError> {
        let (Mode::Msix(messages), Enabled::Vectors(vectors)) =
            (&mut self.wanted, &mut self.enabled)
        else {
            return Ok(());
        };
        match messages.get_mut(usize::from(vector)) {
            Some(wanted) if *wanted != message => {
                *wanted = message;
                vectors.set(vector.into(), message)
            }
            _ => Ok(()),
        }
    }
}

fn enable(
    wanted: &Mode,
    device: &Arc<Device>,
    routes: &Arc<Routes>,
) -> Result<Enabled, PassthroughError> {
    let (index, messages) = match wanted {
        Mode::Off => return Ok(Enabled::Off),
        Mode::Intx(gsi) => {
            let line = Line::connect(device, VFIO_PCI_INTX_IRQ_INDEX, routes.irqs(), *gsi)?;
            return Ok(Enabled::Intx(line));
        }
        Mode::Msi(messages) => (VFIO_PCI_MSI_IRQ_INDEX, messages),
        Mode::Msix(messages) => (VFIO_PCI_MSIX_IRQ_INDEX, messages),
    };
    let mut vectors = Vectors::enable(device, index, messages.len(), routes)?;
    for (vector, message) in messages.iter().enumerate() {
        vectors.set(vector, *message)?;
    }
    Ok(Enabled::Vectors(vectors))
}
