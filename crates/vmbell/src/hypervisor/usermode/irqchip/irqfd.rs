//! Which eventfd raises which GSI, and whom the ack of that signals.
//!
//! The rules of Linux `virt/kvm/eventfd.c`, `kvm_irqfd_assign` and `kvm_irqfd_deassign`: an eventfd is
//! at most one irqfd of a guest, the GSI need lead nowhere, and removing what is not there is no error.

use std::collections::HashMap;
use std::sync::Arc;

use super::resampler::Resampler;
use crate::eventfd::EventId;
use crate::irq::{Gsi, IrqError};

/// All irqfds of a guest.
#[derive(Debug, Default)]
pub struct Irqfds(HashMap<EventId, Irqfd>);

/// An eventfd that raises a GSI.
#[derive(Debug)]
pub struct Irqfd {
    /// The GSI that a signal raises.
    pub gsi: Gsi,
    /// What the ack signals, if the line is resampled: a signal raises a level then, else an edge.
    pub resampler: Option<Arc<Resampler>>,
}

impl Irqfds {
    /// Adds one.
    pub fn assign(&mut self, event: EventId, irqfd: Irqfd) -> Result<(), IrqError> {
        if self.0.contains_key(&event) {
            return Err(IrqError::Busy);
        }
        self.0.insert(event, irqfd);
        Ok(())
    }

    /// Removes one; none if there was none with this eventfd and GSI.
    pub fn deassign(&mut self, event: EventId, gsi: Gsi) -> Option<Irqfd> {
        self.get(event).filter(|irqfd| irqfd.gsi == gsi)?;
        self.0.remove(&event)
    }

    /// The one with this eventfd; none once it was removed.
    pub fn get(&self, event: EventId) -> Option<&Irqfd> {
        self.0.get(&event)
    }

    /// Each that is resampled: its GSI, and what the ack of that signals.
    pub fn resamplers(&self) -> impl Iterator<Item = (Gsi, &Arc<Resampler>)> {
        let irqfds = self.0.values();
        irqfds.filter_map(|irqfd| Some((irqfd.gsi, irqfd.resampler.as_ref()?)))
    }
}
