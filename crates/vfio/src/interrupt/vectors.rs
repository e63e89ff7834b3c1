//! The message-signalled interrupts of a PCI device: one eventfd for each vector, which is an irqfd as long as the
//! guest has given the vector a message and does not mask it. A vector that is signalled while it is not an irqfd is
//! pending: its eventfd counts, and raises the interrupt once it is an irqfd again.

use std::sync::Arc;

use super::line::eventfd;
use crate::device::Device;
use crate::error::{PassthroughError, PassthroughErrorKind};
use vmbell::eventfd::EFD_NONBLOCK;
use vmbell::irq::Msi;
use vmbell_devices::pci::{MessageIrqfd, Routes};

/// All vectors of an interrupt index, which is enabled until the value is dropped.
#[derive(Debug)]
pub struct Vectors {
    device: Arc<Device>,
    index: u32,
    irqfds: Vec<MessageIrqfd>,
}

impl Vectors {
    /// Enables `count` interrupts of an index. They have no messages yet.
    pub fn enable(
        device: &Arc<Device>,
        index: u32,
        count: usize,
        routes: &Arc<Routes>,
    ) -> Result<Self, PassthroughError> {
        // Check the count before that number of eventfds is made.
        device.interrupts(index, 0, count)?;
        let irqfd = |_| {
            let trigger = Arc::new(eventfd(EFD_NONBLOCK)?);
            Ok(MessageIrqfd::new(trigger, Arc::clone(routes)))
        };
        let irqfds: Result<_, PassthroughError> = (0..count).map(irqfd).collect();
        let vectors = Self {
            device: Arc::clone(device),
            index,
            irqfds: irqfds?,
        };
        let irqfds = vectors.irqfds.iter();
        let triggers: Vec<_> = irqfds.map(|irqfd| Some(&**irqfd.event())).collect();
        device.set_triggers(index, 0, &triggers)?;
        Ok(vectors)
    }

    /// Whether a vector without a message has been signalled.
    pub fn is_pending(&self, vector: usize) -> bool {
        let irqfd = self.irqfds.get(vector);
        irqfd.is_some_and(MessageIrqfd::is_pending)
    }

    /// Gives a vector a message; `None` masks it.
    pub fn set(&mut self, vector: usize, message: Option<Msi>) -> Result<(), PassthroughError> {
        let count = self.irqfds.len();
        let Some(irqfd) = self.irqfds.get_mut(vector) else {
            return Err(self.device.error(PassthroughErrorKind::NoInterrupt {
                index: self.index,
                subindex: u32::try_from(vector).unwrap_or(u32::MAX),
                count: u32::try_from(count).unwrap_or(u32::MAX),
            }));
        };
        match message {
            Some(message) => {
                irqfd.connect(message)?;
            }
            None => irqfd.disconnect()?,
        }
        Ok(())
    }
}

impl Drop for Vectors {
    fn drop(&mut self) {
        // Disable the device first, so that it does not signal an eventfd that is gone. No caller can receive an error.
        let _ = self.device.disable(self.index);
    }
}
