//! For tests of devices: a registry of doorbells in this process, with the rules of KVM.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vmbell::doorbell::{
    Bell, Datamatch, DoorbellError, DoorbellSet, IoEventAddress, Pattern, RegisterError, Sharing,
};
use vmbell::eventfd::EventFd;
use vmbell_hypervisor::{Doorbell, Error, IoEvents};

/// The registry, and how many doorbells it has.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) set: Arc<DoorbellSet>,
    pub(super) registered: Arc<AtomicUsize>,
    /// Whether to refuse everything.
    pub(super) refuse: bool,
}

impl Registry {
    /// Rings as a vCPU does.
    pub(super) fn bell(&self) -> Bell {
        self.set.bell()
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
        self.set
            .register(event, address, datamatch, sharing)
            .map_err(|error| match error {
                RegisterError::Doorbell(rule) => rule.into(),
                RegisterError::Signal(source) => Error::Backend(source.into()),
            })?;
        self.registered.fetch_add(1, Ordering::Relaxed);
        let (set, registered) = (Arc::clone(&self.set), Arc::clone(&self.registered));
        Ok(Doorbell::new(event, move |event| {
            set.unregister(event, address, datamatch)?;
            registered.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        }))
    }
}
