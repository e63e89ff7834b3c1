//! For tests of devices: a registry of doorbells in this process, with KVM's rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use vmbell::doorbell::{
    Bell, Datamatch, DoorbellError, DoorbellSet, IoEventAddress, Pattern, RegisterError, Sharing,
};
use vmbell::eventfd::EventFd;
use vmbell::sync::Mutex;
use vmbell_hypervisor::{Capability, Doorbell, Error, IoEvents, Payload, RemoveDoorbell};

/// The registry.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) guest: Arc<Guest>,
    /// Whether to refuse every registration.
    pub(super) refuse: bool,
    /// Whether the registry stores the values of doorbells with a payload.
    pub(super) stores: bool,
}

/// The doorbells, and how many there are.
#[derive(Default)]
pub(super) struct Guest {
    set: DoorbellSet,
    registered: AtomicUsize,
    values: Mutex<Vec<(IoEventAddress, Arc<AtomicU64>)>>,
}

/// The last value of a doorbell.
struct Value(Arc<AtomicU64>);

impl Payload for Value {
    fn value(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire))
    }
}

impl Registry {
    /// Returns a handle that rings doorbells as a vCPU does.
    pub(super) fn bell(&self) -> Bell {
        self.guest.set.bell()
    }

    /// Stores the value of a doorbell, before the doorbell [rings](Self::bell).
    pub(super) fn store(&self, address: IoEventAddress, data: &[u8]) {
        let Ok(data) = data.try_into() else { return };
        let data = u32::from_le_bytes(data);
        let values = self.guest.values.lock();
        for (_, value) in values.iter().filter(|(at, _)| *at == address) {
            value.store(data.into(), Ordering::Release);
        }
    }

    /// How many doorbells the registry has.
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

    /// Registers a doorbell of 4 bytes.
    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        _len: u32,
    ) -> Result<Doorbell, Error> {
        if !self.stores {
            return Err(Error::Unsupported {
                backend: "double",
                capability: Capability::PayloadDoorbell,
                reason: "what rings here has the value itself".to_owned(),
            });
        }
        let value = Arc::new(AtomicU64::new(0));
        let any = Datamatch::U32(None);
        let doorbell = self.register_ioevent(event, address, any, Sharing::Exclusive)?;
        let mut values = self.guest.values.lock();
        values.push((address, Arc::clone(&value)));
        Ok(doorbell.with_payload(Box::new(Value(value))))
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
        let mut values = self.values.lock();
        values.retain(|(at, _)| *at != address);
        self.registered.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
}
