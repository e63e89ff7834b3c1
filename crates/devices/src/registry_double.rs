//! For tests of devices: a registry of doorbells in this process, with the rules of KVM.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vmbell::doorbell::{
    Bell, Datamatch, DoorbellError, DoorbellSet, IoEventAddress, Pattern, RegisterError, Sharing,
};
use vmbell::eventfd::EventFd;
use vmbell_hypervisor::{Capability, Doorbell, Error, IoEvents, RemoveDoorbell};

/// The registry.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) guest: Arc<Guest>,
    /// Whether to refuse everything.
    pub(super) refuse: bool,
}

/// The doorbells, and how many there are.
#[derive(Default)]
pub(super) struct Guest {
    set: DoorbellSet,
    registered: AtomicUsize,
}

impl Registry {
    /// Rings as a vCPU does.
    pub(super) fn bell(&self) -> Bell {
        self.guest.set.bell()
    }

    /// How many doorbells it has.
    pub(super) fn registered(&self) -> usize {
        self.guest.registered.load(Ordering::Relaxed)
    }
}

impl IoEvents for Registry {
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error> {
        if self.refuse {
            let pattern = Pattern::from(datamatch);
            return Err(DoorbellError::Exists { address, pattern }.into());
        }
        self.guest
            .set
            .register(event, address, datamatch, sharing)
            .map_err(|error| match error {
                RegisterError::Doorbell(rule) => rule.into(),
                RegisterError::Signal(source) => Error::Backend(source.into()),
            })?;
        self.guest.registered.fetch_add(1, Ordering::Relaxed);
        let guest = Arc::downgrade(&self.guest);
        Ok(Doorbell::new(event, guest, address, datamatch, sharing))
    }

    fn register_payload(
        &self,
        _event: &Arc<EventFd>,
        _address: IoEventAddress,
        _len: u32,
    ) -> Result<Doorbell, Error> {
        Err(Error::Unsupported {
            backend: "double",
            capability: Capability::PayloadDoorbell,
            reason: "what rings here has the value itself".to_owned(),
        })
    }
}

impl RemoveDoorbell for Guest {
    fn remove_doorbell(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        _sharing: Sharing,
    ) -> Result<(), Error> {
        self.set.unregister(event, address, datamatch)?;
        self.registered.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
}
