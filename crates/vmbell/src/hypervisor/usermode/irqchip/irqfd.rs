//! Which eventfd raises which GSI, and whom an EOI signals.
//!
//! The rules of Linux `virt/kvm/eventfd.c`, `kvm_irqfd_assign` and `kvm_irqfd_deassign`: an eventfd is
//! at most one irqfd of a guest, the GSI need lead nowhere, and removing what is not there is no error.

use std::collections::HashMap;

use crate::eventfd::EventId;
use crate::irq::{Gsi, IrqError};

/// All irqfds of a guest; `R` is what a resampling one signals.
#[derive(Debug)]
pub struct Irqfds<R> {
    irqfds: HashMap<EventId, Irqfd<R>>,
}

/// An eventfd that raises a GSI.
#[derive(Debug)]
pub struct Irqfd<R> {
    /// The GSI that a signal raises.
    pub gsi: Gsi,
    /// What the EOI signals, if the line is resampled.
    pub resample: Option<R>,
}

/// What a signal of an irqfd does to its GSI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Up and down.
    Edge(Gsi),
    /// Up until the EOI.
    Level(Gsi),
}

impl<R> Default for Irqfds<R> {
    fn default() -> Self {
        Self {
            irqfds: HashMap::new(),
        }
    }
}

impl<R> Irqfds<R> {
    /// Adds one.
    pub fn assign(
        &mut self,
        event: EventId,
        gsi: Gsi,
        resample: Option<R>,
    ) -> Result<(), IrqError> {
        if self.irqfds.contains_key(&event) {
            return Err(IrqError::Busy);
        }
        self.irqfds.insert(event, Irqfd { gsi, resample });
        Ok(())
    }

    /// Removes one; none if there was none with this eventfd and GSI.
    pub fn deassign(&mut self, event: EventId, gsi: Gsi) -> Option<Irqfd<R>> {
        self.irqfds.get(&event).filter(|fd| fd.gsi == gsi)?;
        self.irqfds.remove(&event)
    }

    /// What a signal of an eventfd means; none once it was removed.
    pub fn trigger(&self, event: EventId) -> Option<Trigger> {
        let irqfd = self.irqfds.get(&event)?;
        Some(match irqfd.resample {
            None => Trigger::Edge(irqfd.gsi),
            Some(_) => Trigger::Level(irqfd.gsi),
        })
    }

    /// Each that is resampled: its GSI, and what an EOI of that signals.
    pub fn resamplers(&self) -> impl Iterator<Item = (Gsi, &R)> {
        let irqfds = self.irqfds.values();
        irqfds.filter_map(|irqfd| Some((irqfd.gsi, irqfd.resample.as_ref()?)))
    }
}
