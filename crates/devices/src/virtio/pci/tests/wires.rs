//! Interrupts in this process, with KVM's rules.

use std::os::fd::{AsRawFd, RawFd};

use super::*;
use vmbell::eventfd::{EventFd, EventId};
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Route, Routing, Target};
use vmbell::sync::MutexGuard;
use vmbell_hypervisor::{IRQ_ARCH, IrqTrigger, Irqfd, Irqs};

/// Interrupts: what was sent, and how. An irqfd sends what was counted before, as the kernel's irqfds do.
#[derive(Clone, Debug, Default)]
pub struct Wires(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub struct State {
    routing: Routing,
    irqfds: Vec<(RawFd, Gsi)>,
    registered: Vec<EventId>,
    sent: Vec<Msi>,
    pub calls: usize,
}

impl Wires {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Takes the messages that were sent since the last call.
    pub fn take(&self) -> Vec<Msi> {
        std::mem::take(&mut self.lock().sent)
    }

    /// Every eventfd that has become an irqfd.
    pub fn registered(&self) -> Vec<EventId> {
        self.lock().registered.clone()
    }

    /// How many irqfds and routes there are.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.irqfds.len(), state.routing.routes().count())
    }
}

/// Sends the message to which the GSI is routed, as the kernel does.
#[derive(Debug)]
struct Trigger(Wires, RawFd);

impl IrqTrigger for Trigger {
    fn signal(&self) {
        let mut state = self.0.lock();
        let gsi = state.irqfds.iter().find(|(fd, _)| *fd == self.1);
        let target = gsi.and_then(|(_, gsi)| state.routing.target(*gsi));
        if let Some(Target::Msi(message)) = target {
            state.sent.push(message);
        }
    }
}

impl Irqs for Wires {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        _resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        let irqfd = (event.as_raw_fd(), gsi);
        let mut state = self.lock();
        state.irqfds.push(irqfd);
        state.registered.push(EventId::of(event).unwrap());
        if event.read().is_ok()
            && let Some(Target::Msi(message)) = state.routing.target(gsi)
        {
            state.sent.push(message);
        }
        let trigger = Box::new(Trigger(self.clone(), irqfd.0));
        let wires = self.clone();
        Ok(Irqfd::new(event, gsi, Some(trigger), move |_| {
            wires.lock().irqfds.retain(|other| *other != irqfd);
            Ok(())
        }))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        self.lock().routing = Routing::new(routes, IRQ_ARCH)?;
        Ok(())
    }

    fn set_line(&self, _gsi: Gsi, _level: bool) -> Result<(), Error> {
        unreachable!("the device has no line")
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        let mut state = self.lock();
        state.calls += 1;
        state.sent.push(msi);
        Ok(true)
    }
}
