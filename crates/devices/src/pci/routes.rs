//! The interrupt routes of a guest whose devices send messages: one for each line, and one for each message. A backend
//! takes the whole table at once, so all devices of a guest share it. Any thread may use the table. The irqfd of a
//! message belongs to the device that sends the message, under that device's lock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use vmbell::eventfd::{EventFd, has_count};
use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};
use vmbell::sync::Mutex;
use vmbell_hypervisor::{Error, IRQ_ARCH, Irqfd, Irqs};

/// The first GSI after those of the pins.
const FIRST: u32 = IRQ_ARCH.pins() as u32;

/// The interrupt routes of a guest.
pub struct Routes {
    irqs: Arc<dyn Irqs>,
    lines: Vec<Route>,
    messages: Mutex<BTreeMap<u32, Msi>>,
}

impl Routes {
    /// Creates the table with `lines`, the routes that the backend already has.
    pub fn new(irqs: Arc<dyn Irqs>, lines: Vec<Route>) -> Arc<Self> {
        Arc::new(Self {
            irqs,
            lines,
            messages: Mutex::default(),
        })
    }

    /// The guest's interrupts.
    pub fn irqs(&self) -> &Arc<dyn Irqs> {
        &self.irqs
    }

    /// Routes a GSI to this message from now on: `gsi`, or if that is `None`, a GSI without a route. Returns the GSI.
    fn lead(&self, gsi: Option<Gsi>, message: Msi) -> Result<Gsi, Error> {
        self.change(|messages| {
            let is_free = |number: &u32| {
                let line = |route: &Route| route.gsi.number() == *number;
                !messages.contains_key(number) && !self.lines.iter().any(line)
            };
            let gsi = match gsi {
                Some(gsi) => gsi,
                None => {
                    let count = Gsi::LIMIT as usize;
                    let free = (FIRST..Gsi::LIMIT).find(is_free);
                    Gsi::new(free.ok_or(IrqError::TooManyRoutes { count })?)?
                }
            };
            messages.insert(gsi.number(), message);
            Ok(gsi)
        })
    }

    /// Changes the table, and undoes the change if the backend refuses the table.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<u32, Msi>) -> Result<T, IrqError>,
    ) -> Result<T, Error> {
        let mut messages = self.messages.lock();
        let mut changed = messages.clone();
        let result = change(&mut changed)?;
        let mut routes = self.lines.clone();
        for (number, message) in &changed {
            routes.push(Route {
                gsi: Gsi::new(*number)?,
                target: Target::Msi(*message),
            });
        }
        self.irqs.set_routing(&routes)?;
        *messages = changed;
        Ok(result)
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes")
            .field("lines", &self.lines)
            .field("messages", &self.messages)
            .finish_non_exhaustive()
    }
}

/// An eventfd whose signals send a message while it is connected, and otherwise wait in its count. A drop removes the
/// irqfd and then the route.
#[derive(Debug)]
pub struct MessageIrqfd {
    routes: Arc<Routes>,
    event: Arc<EventFd>,
    irqfd: Option<Irqfd>,
    /// Set from the first message on.
    route: Option<(Gsi, Msi)>,
}

impl MessageIrqfd {
    /// Takes an eventfd that is not connected yet: its signals wait.
    pub const fn new(event: Arc<EventFd>, routes: Arc<Routes>) -> Self {
        Self {
            routes,
            event,
            irqfd: None,
            route: None,
        }
    }

    /// The eventfd.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// Sends this message for each signal from now on, and once for the signals that have waited.
    pub fn connect(&mut self, message: Msi) -> Result<&Irqfd, Error> {
        let gsi = match self.route {
            Some((gsi, now)) if now == message => gsi,
            other => self.routes.lead(other.map(|(gsi, _)| gsi), message)?,
        };
        self.route = Some((gsi, message));
        Ok(match &mut self.irqfd {
            Some(irqfd) => irqfd,
            none => none.insert(self.routes.irqs.register_irqfd(&self.event, gsi, None)?),
        })
    }

    /// The irqfd, while it is connected.
    pub(crate) const fn connected(&self) -> Option<&Irqfd> {
        self.irqfd.as_ref()
    }

    /// Lets the signals wait from now on.
    pub fn disconnect(&mut self) -> Result<(), Error> {
        self.irqfd.take().map_or(Ok(()), |mut irqfd| irqfd.remove())
    }

    /// Whether a signal waits. If the kernel has no memory to answer, returns true: the guest then looks for an
    /// interrupt that may not be there.
    pub fn is_pending(&self) -> bool {
        self.irqfd.is_none() && has_count(&self.event).unwrap_or(true)
    }
}

impl Drop for MessageIrqfd {
    fn drop(&mut self) {
        self.irqfd = None;
        if let Some((gsi, _)) = self.route {
            // A backend that refuses the shorter table keeps a route that no irqfd uses.
            let _ = self.routes.change(|messages| {
                messages.remove(&gsi.number());
                Ok(())
            });
        }
    }
}
