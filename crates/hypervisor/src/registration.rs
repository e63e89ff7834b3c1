//! What a registration returns: the value that owns a doorbell ([`Doorbell`]) or an irqfd ([`Irqfd`], which is an
//! [`IrqTrigger`]).
//!
//! Dropping the value removes the registration, on the thread that drops it. If the removal fails, because a sandbox is
//! stopped, the registration stays until the guest ends; a caller that has to know calls `remove`, and may call it
//! again. The value does not keep the guest alive: the registration ends with its guest.

use std::sync::{Arc, Weak};
use std::{fmt, mem};

use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};
use vmbell::irq::Gsi;
use vmm_sys_util::eventfd::EventFd;

use super::error::Error;

/// A registered doorbell: matching guest writes signal its eventfd until it is removed or dropped.
///
/// See [`IoEvents::register_ioevent`].
#[must_use = "a doorbell that is dropped is removed"]
pub struct Doorbell {
    event: Arc<EventFd>,
    // Not a boxed closure: its allocation makes a registration on KVM 0.5 % slower.
    guest: Weak<dyn RemoveDoorbell>,
    address: IoEventAddress,
    datamatch: Datamatch,
    sharing: Sharing,
    payload: Option<Box<dyn Payload>>,
    state: RegistrationState,
}

/// Where a backend stores the last value of a doorbell with a payload. The guest may store to it until the doorbell is
/// removed, so the doorbell keeps it alive until then.
pub trait Payload: Send + Sync {
    /// Returns the last value, 0 before the first write; `None` if the guest is gone and its values with it.
    fn value(&self) -> Option<u64>;
}

/// Implemented by each backend's guests, so that doorbells can remove themselves.
pub trait RemoveDoorbell: Send + Sync {
    /// Removes the doorbell that was registered with these values. Called again after an error.
    fn remove_doorbell(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error>;
}

impl Doorbell {
    /// For backends: returns the doorbell that has just been registered with these values in this guest.
    pub fn new(
        event: &Arc<EventFd>,
        guest: Weak<dyn RemoveDoorbell>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Self {
        Self {
            event: Arc::clone(event),
            guest,
            address,
            datamatch,
            sharing,
            payload: None,
            state: RegistrationState::Registered,
        }
    }

    /// For backends: returns the same doorbell, whose values are stored in `payload`.
    pub fn with_payload(mut self, payload: Box<dyn Payload>) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Returns the value of the guest's last write, zero-extended; 0 before the first write. After the eventfd was
    /// read, it is the value of a write that signalled the eventfd or of a later write.
    ///
    /// The value stays after the doorbell is removed. `None` if the doorbell has no payload
    /// ([`register_payload`](IoEvents::register_payload)), or if the guest is gone and its values with it.
    pub fn payload(&self) -> Option<u64> {
        self.payload.as_ref()?.value()
    }

    /// The eventfd that guest writes signal.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// Removes the doorbell: once this returns `Ok`, it no longer signals the eventfd. A concurrent guest write is
    /// delivered exactly once, as a signal or as an exit.
    ///
    /// After [`Error::Unremoved`] the doorbell is still registered, and `remove` may be called again. Dropping the
    /// doorbell then does not try again, because each attempt may wait.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.state.remove(|| match self.guest.upgrade() {
            Some(guest) => {
                guest.remove_doorbell(&self.event, self.address, self.datamatch, self.sharing)
            }
            None => Ok(()),
        })
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        if self.state == RegistrationState::Registered {
            // An owner that needs the result calls `remove`.
            let _ = self.remove();
        }
        if self.state != RegistrationState::Removed {
            // The guest can still store to the payload.
            mem::forget(self.payload.take());
        }
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell")
            .field("event", &self.event)
            .field("address", &self.address)
            .field("datamatch", &self.datamatch)
            .field("sharing", &self.sharing)
            .field("payload", &self.payload())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Raises an interrupt, from any thread of this process. Implemented by [`Irqfd`], by eventfds and by lines.
pub trait IrqTrigger: Send + Sync + fmt::Debug {
    /// Signals once. Does nothing if the interrupt is no longer registered.
    fn signal(&self);
}

impl IrqTrigger for EventFd {
    fn signal(&self) {
        // The write fails only if the count is at its limit: then a signal is pending already.
        let _ = self.write(1);
    }
}

/// A registered irqfd: signals of its eventfd raise its GSI until it is removed or dropped.
///
/// See [`Irqs::register_irqfd`](super::Irqs::register_irqfd).
#[must_use = "an irqfd that is dropped is removed"]
pub struct Irqfd {
    event: Arc<EventFd>,
    gsi: Gsi,
    /// Raises the interrupt on the calling thread; `None` if a write to the eventfd raises it.
    trigger: Option<Box<dyn IrqTrigger>>,
    remove: Box<Remove>,
    state: RegistrationState,
}

/// Removes the irqfd of an eventfd.
type Remove = dyn Fn(&EventFd) -> Result<(), Error> + Send + Sync;

impl Irqfd {
    /// For backends: returns an irqfd of `event`. It is removed by `remove`, which is called again after an error.
    /// `trigger` raises its interrupt faster than a write to `event`.
    pub fn new(
        event: &Arc<EventFd>,
        gsi: Gsi,
        trigger: Option<Box<dyn IrqTrigger>>,
        remove: impl Fn(&EventFd) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self {
            event: Arc::clone(event),
            gsi,
            trigger,
            remove: Box::new(remove),
            state: RegistrationState::Registered,
        }
    }

    /// The eventfd, which another process or the kernel may signal.
    pub const fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// The GSI that a signal raises.
    pub const fn gsi(&self) -> Gsi {
        self.gsi
    }

    /// Removes the irqfd: once this returns `Ok`, signals of its eventfd no longer raise the GSI.
    ///
    /// After [`Error::Unremoved`] its resample eventfd may still be signalled, and `remove` may be called again.
    /// Dropping the irqfd then does not try again, because each attempt may wait.
    pub fn remove(&mut self) -> Result<(), Error> {
        self.state.remove(|| (self.remove)(&self.event))
    }
}

impl Drop for Irqfd {
    fn drop(&mut self) {
        if self.state == RegistrationState::Registered {
            // An owner that needs the result calls `remove`.
            let _ = self.remove();
        }
    }
}

/// A device in this process signals the irqfd without a system call if the backend's interrupt controllers are in this
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
            .field("event", &self.event)
            .field("gsi", &self.gsi)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RegistrationState {
    Registered,
    /// The last attempt to remove the registration failed.
    Unremoved,
    Removed,
}

impl RegistrationState {
    /// Removes the registration, unless it is removed already.
    fn remove(&mut self, remove: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        if *self != Self::Removed {
            *self = Self::Unremoved;
            remove()?;
            *self = Self::Removed;
        }
        Ok(())
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

    /// Registers a doorbell that also stores the value written: once this returns, a guest write of `len` bytes (1, 2,
    /// 4 or 8) stores its value ([`Doorbell::payload`]) and then signals `event`. After several writes the last value
    /// remains. No other doorbell can have the same address and length.
    ///
    /// Fails with [`Error::Unsupported`] if the backend has no
    /// [`Capability::PayloadDoorbell`](super::Capability::PayloadDoorbell).
    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        len: u32,
    ) -> Result<Doorbell, Error>;
}

#[cfg(test)]
#[path = "registration_test.rs"]
mod tests;
