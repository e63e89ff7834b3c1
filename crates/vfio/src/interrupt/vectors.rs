//! The message-signalled interrupts of a PCI device: one eventfd for each vector, which is an irqfd as long as the
//! guest has given the vector a message and does not mask it. A vector that is signalled while it is not an irqfd is
//! pending: its eventfd counts, and raises the interrupt once it is an irqfd again.

use std::sync::Arc;

use super::line::eventfd;
use crate::PassthroughError;
use crate::device::Device;
use vmbell::eventfd::{EFD_NONBLOCK, EventFd, has_count};
use vmbell::irq::Msi;
use vmbell_devices::pci::{MessageRoute, Routes};
use vmbell_hypervisor::Irqfd;

/// All vectors of an interrupt index that is enabled, until this is dropped.
#[derive(Debug)]
pub struct Vectors {
    device: Arc<Device>,
    index: u32,
    routes: Arc<Routes>,
    vectors: Vec<Vector>,
}

#[derive(Debug)]
struct Vector {
    trigger: Arc<EventFd>,
    sent: Option<Sent>,
}

/// What a vector has while its message is sent: the irqfd goes before its route.
#[derive(Debug)]
struct Sent {
    irqfd: Irqfd,
    route: MessageRoute,
}

impl Vectors {
    /// Enables `count` interrupts of an index. They have no messages yet.
    pub fn enable(
        device: &Arc<Device>,
        index: u32,
        count: usize,
        routes: &Arc<Routes>,
    ) -> Result<Self, PassthroughError> {
        // Before that many eventfds are made.
        device.interrupts(index, 0, count)?;
        let vector = |_| {
            let trigger = Arc::new(eventfd(EFD_NONBLOCK)?);
            Ok(Vector {
                trigger,
                sent: None,
            })
        };
        let vectors = (0..count)
            .map(vector)
            .collect::<Result<Vec<_>, PassthroughError>>()?;
        let vectors = Self {
            device: Arc::clone(device),
            index,
            routes: Arc::clone(routes),
            vectors,
        };
        let triggers = vectors.vectors.iter();
        let triggers: Vec<_> = triggers.map(|vector| Some(&*vector.trigger)).collect();
        device.set_triggers(index, 0, &triggers)?;
        Ok(vectors)
    }

    /// Whether a vector without a message has been signalled. If the kernel has no memory to answer, it has: the guest
    /// then looks for an interrupt that may not be there.
    pub fn is_pending(&self, vector: usize) -> bool {
        match self.vectors.get(vector) {
            Some(Vector {
                trigger,
                sent: None,
            }) => has_count(trigger).unwrap_or(true),
            _ => false,
        }
    }

    /// Gives a vector a message; `None` masks it.
    pub fn set(&mut self, vector: usize, message: Option<Msi>) -> Result<(), PassthroughError> {
        let count = self.vectors.len();
        let Some(found) = self.vectors.get_mut(vector) else {
            return Err(PassthroughError::NoInterrupt {
                name: self.device.name().to_owned(),
                index: self.index,
                subindex: u32::try_from(vector).unwrap_or(u32::MAX),
                count: u32::try_from(count).unwrap_or(u32::MAX),
            });
        };
        match (&mut found.sent, message) {
            (None, None) => Ok(()),
            (Some(sent), Some(message)) => Ok(sent.route.set(message)?),
            (Some(sent), None) => {
                sent.irqfd.remove()?;
                found.sent = None;
                Ok(())
            }
            (None, Some(message)) => {
                let route = self.routes.add(message)?;
                let irqs = self.routes.irqs();
                let irqfd = irqs.register_irqfd(&found.trigger, route.gsi(), None)?;
                found.sent = Some(Sent { irqfd, route });
                Ok(())
            }
        }
    }
}

impl Drop for Vectors {
    fn drop(&mut self) {
        // The device first: nothing signals an eventfd that is gone. No caller can receive an error.
        let _ = self.device.disable(self.index);
    }
}
