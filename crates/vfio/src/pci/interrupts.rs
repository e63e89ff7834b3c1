//! Which kind of interrupts the device has now, and the changes from one to another. The caller has a lock.

use std::sync::Arc;

use super::{AssignedError, Failure, InterruptWiring};
use vmbell::irq::{Gsi, Msi};

/// A kind of interrupts, with what the guest has set up of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Off,
    Intx(Gsi),
    Msi(Vec<Option<Msi>>),
    Msix(Vec<Option<Msi>>),
}

/// The device's interrupts.
pub(super) struct Interrupts {
    vectors: Arc<dyn InterruptWiring>,
    now: Mode,
}

impl Interrupts {
    /// Interrupts that are off.
    pub(super) fn new(vectors: Arc<dyn InterruptWiring>) -> Self {
        let now = Mode::Off;
        Self { vectors, now }
    }

    /// Changes what is different from `wanted`, and nothing else. After an error the interrupts count as `wanted`, so
    /// that the same error is not met again with each write of the guest.
    pub(super) fn switch(&mut self, wanted: Mode) -> Result<(), AssignedError> {
        let vectors = &*self.vectors;
        let outcome = match (&self.now, &wanted) {
            (now, wanted) if now == wanted => Ok(()),
            (Mode::Msi(_), Mode::Msi(messages)) => failed("MSI on", vectors.set_msi(messages)),
            (Mode::Msix(before), Mode::Msix(after)) => {
                let pairs = (0..).zip(before.iter().zip(after));
                let mut outcome = Ok(());
                for (vector, (_, after)) in pairs.filter(|(_, (before, after))| before != after) {
                    outcome = outcome.and(set_vector(vectors, vector, *after));
                }
                outcome
            }
            (now, wanted) => {
                let off = match now {
                    Mode::Off => Ok(()),
                    _ => failed("interrupts off", vectors.disable()),
                };
                let on = match wanted {
                    Mode::Off => Ok(()),
                    Mode::Intx(gsi) => failed("INTx on", vectors.set_intx(*gsi)),
                    Mode::Msi(messages) => failed("MSI on", vectors.set_msi(messages)),
                    Mode::Msix(messages) => failed("MSI-X on", vectors.set_msix(messages)),
                };
                off.and(on)
            }
        };
        self.now = wanted;
        outcome
    }

    /// Whether an interrupt of a vector of MSI is kept, because the vector is masked.
    pub(super) fn is_msi_pending(&self, vector: u16) -> Result<bool, AssignedError> {
        match &self.now {
            Mode::Msi(messages) => self.is_kept(messages, vector),
            _ => Ok(false),
        }
    }

    /// Whether an interrupt of a vector of MSI-X is kept, because the vector is masked.
    pub(super) fn is_msix_pending(&self, vector: u16) -> Result<bool, AssignedError> {
        match &self.now {
            Mode::Msix(messages) => self.is_kept(messages, vector),
            _ => Ok(false),
        }
    }

    fn is_kept(&self, messages: &[Option<Msi>], vector: u16) -> Result<bool, AssignedError> {
        let is_masked = messages.get(usize::from(vector)) == Some(&None);
        if !is_masked {
            return Ok(false);
        }
        let pending = self.vectors.is_pending(vector);
        pending.map_err(|source| AssignedError::Pending { vector, source })
    }

    /// Changes one vector of MSI-X, if MSI-X is on.
    pub(super) fn set_vector(
        &mut self,
        vector: u16,
        message: Option<Msi>,
    ) -> Result<(), AssignedError> {
        let Mode::Msix(messages) = &mut self.now else {
            return Ok(());
        };
        match messages.get_mut(usize::from(vector)) {
            Some(now) if *now != message => {
                *now = message;
                set_vector(&*self.vectors, vector, message)
            }
            _ => Ok(()),
        }
    }
}

fn set_vector(
    vectors: &dyn InterruptWiring,
    vector: u16,
    message: Option<Msi>,
) -> Result<(), AssignedError> {
    failed(
        "a vector of MSI-X on or off",
        vectors.set_msix_vector(vector, message),
    )
}

fn failed(interrupts: &'static str, outcome: Result<(), Failure>) -> Result<(), AssignedError> {
    outcome.map_err(|source| AssignedError::Interrupts { interrupts, source })
}
