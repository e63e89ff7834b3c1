//! What a registration returns: the value that owns it, of a doorbell ([`Doorbell`]) or of an irqfd ([`Irqfd`]).
//!
//! Dropping it removes the registration, on the thread that drops it. If that fails, because a sandbox is stopped, the
//! registration keeps its place until the guest ends; a caller that has to know calls `remove`, and may try again. The
//! value does not keep the guest: when the guest is gone, so is the registration.

use std::fmt;
use std::sync::Arc;

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::Gsi;
use vmm_sys_util::eventfd::EventFd;

use super::{Error, IrqTrigger};

/// A registered doorbell: matching guest writes signal its eventfd until it is removed or dropped.
///
/// See [`IoEvents::register_ioevent`].
#[must_use = "a doorbell that is dropped is removed"]
pub struct Doorbell {
    registration: Registration,
}

impl Doorbell {
    /// For a backend: a doorbell of `event`, which `remove` gets to remove it. It calls `remove` again after an error.
    pub fn new(
        event: &Arc<EventFd>,
        remove: impl Fn(&EventFd) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        let registration = Registration::new(event, remove);
        Self { registration }
    }

    /// The eventfd that guest writes signal.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.registration.event
    }

    /// Removes the doorbell: once this returns `Ok`, it signals the eventfd no more. A write at the same time is
    /// delivered exactly once, as a signal or as an exit.
    ///
    /// After [`Error::Unremoved`] the doorbell is still registered, and `remove` may be called again. Dropping it then does
    /// not try again, because each attempt may wait.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.registration.remove()
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell")
            .field("event", &self.registration.event)
            .field("state", &self.registration.state)
            .finish_non_exhaustive()
    }
}

/// A registered irqfd: signals of its eventfd raise its GSI until it is removed or dropped.
///
/// See [`Irqs::register_irqfd`](super::Irqs::register_irqfd).
#[must_use = "an irqfd that is dropped is removed"]
pub struct Irqfd {
    registration: Registration,
    gsi: Gsi,
    /// What raises the interrupt on the calling thread; `None` if a write to the eventfd does.
    trigger: Option<Box<dyn IrqTrigger>>,
}

impl Irqfd {
    /// For a backend: an irqfd of `event`, which `remove` gets to remove it. It calls `remove` again after an error.
    /// `trigger` is a way to signal it that is shorter than a write to `event`.
    pub fn new(
        event: &Arc<EventFd>,
        gsi: Gsi,
        trigger: Option<Box<dyn IrqTrigger>>,
        remove: impl Fn(&EventFd) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            registration: Registration::new(event, remove),
            gsi,
            trigger,
        }
    }

    /// The eventfd, for another process or the kernel to signal.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.registration.event
    }

    /// The interrupt that a signal raises.
    pub const fn gsi(&self) -> Gsi {
        self.gsi
    }

    /// Removes the irqfd: once this returns `Ok`, signals of its eventfd raise the GSI no more.
    ///
    /// After [`Error::Unremoved`] its resample eventfd may still be signalled, and `remove` may be called again. Dropping it
    /// then does not try again, because each attempt may wait.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.registration.remove()
    }
}

/// A device of this process signals the irqfd without a system call if the backend's interrupt controllers are in this
/// process.
impl IrqTrigger for Irqfd {
    fn signal(&self) {
        match &self.trigger {
            Some(trigger) => trigger.signal(),
            None => self.event().signal(),
        }
    }
}

impl fmt::Debug for Irqfd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Irqfd")
            .field("event", &self.registration.event)
            .field("gsi", &self.gsi)
            .field("state", &self.registration.state)
            .finish_non_exhaustive()
    }
}

/// Removes the registration of an eventfd.
type Remove = dyn Fn(&EventFd) -> Result<(), Error> + Send + Sync;

/// Shares the eventfd, and removes the registration once.
struct Registration {
    event: Arc<EventFd>,
    remove: Box<Remove>,
    state: RegistrationState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegistrationState {
    Registered,
    /// The last attempt to remove it failed.
    Unremoved,
    Removed,
}

impl Registration {
    fn new(
        event: &Arc<EventFd>,
        remove: impl Fn(&EventFd) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            event: Arc::clone(event),
            remove: Box::new(remove),
            state: RegistrationState::Registered,
        }
    }

    fn remove(&mut self) -> Result<(), Error> {
        if self.state != RegistrationState::Removed {
            self.state = RegistrationState::Unremoved;
            (self.remove)(&self.event)?;
            self.state = RegistrationState::Removed;
        }
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if self.state == RegistrationState::Registered {
            // The owner asks `remove` if it wants to know.
            let _ = (self.remove)(&self.event);
        }
    }
}

/// Registers doorbells, from any thread. Every [`Vm`](super::Vm) implements it.
pub trait IoEvents: Send + Sync {
    /// Registers a doorbell: once this returns, a matching guest write signals `event` instead of leaving to
    /// the VMM, until the returned value is removed or dropped.
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error>;
}

#[cfg(test)]
#[path = "registration_test.rs"]
mod tests;
