//! Routes of a guest whose devices send messages: the routes of its lines, and one for each message. A backend takes
//! its whole table at once, so all devices of a guest share this. Any thread may use it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use vmbell::irq::{Gsi, IrqError, Msi, Route, Target};
use vmbell::sync::Mutex;
use vmbell_hypervisor::{IRQ_ARCH, Irqs};

/// The first GSI that no pin has.
const FIRST: u32 = IRQ_ARCH.pins() as u32;

/// The routes.
pub struct Routes {
    irqs: Arc<dyn Irqs>,
    lines: Vec<Route>,
    messages: Mutex<BTreeMap<u32, Msi>>,
}

impl Routes {
    /// The routes of a guest that has `lines`, which are the backend's already.
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

    /// Adds the route of a message, with a GSI that no other route has.
    pub fn add(self: &Arc<Self>, message: Msi) -> Result<MessageRoute, vmbell_hypervisor::Error> {
        let gsi = self.change(|messages| {
            let free = (FIRST..Gsi::LIMIT).find(|number| {
                let line = |route: &&Route| route.gsi.number() == *number;
                !messages.contains_key(number) && self.lines.iter().find(line).is_none()
            });
            let count = Gsi::LIMIT as usize;
            let number = free.ok_or(IrqError::TooManyRoutes { count })?;
            messages.insert(number, message);
            Gsi::new(number)
        })?;
        Ok(MessageRoute {
            routes: Arc::clone(self),
            gsi,
            message,
        })
    }

    /// Changes the table, and changes it back if the backend refuses it.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<u32, Msi>) -> Result<T, IrqError>,
    ) -> Result<T, vmbell_hypervisor::Error> {
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

/// The route of one message, until this is dropped.
#[derive(Debug)]
pub struct MessageRoute {
    routes: Arc<Routes>,
    gsi: Gsi,
    message: Msi,
}

impl MessageRoute {
    /// The GSI that sends the message.
    pub const fn gsi(&self) -> Gsi {
        self.gsi
    }

    /// Leads the GSI to this message from now on.
    pub fn set(&mut self, message: Msi) -> Result<(), vmbell_hypervisor::Error> {
        if self.message != message {
            self.routes.change(|messages| {
                messages.insert(self.gsi.number(), message);
                Ok(())
            })?;
            self.message = message;
        }
        Ok(())
    }
}

impl Drop for MessageRoute {
    fn drop(&mut self) {
        // A backend that refuses the shorter table keeps a route that no irqfd uses.
        let _ = self.routes.change(|messages| {
            messages.remove(&self.gsi.number());
            Ok(())
        });
    }
}
