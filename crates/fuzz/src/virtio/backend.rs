//! Doorbells and interrupts in this process, with KVM's rules.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, LazyLock};

use vmbell::doorbell::{Bell, Datamatch, DoorbellSet, IoEventAddress, RegisterError, Sharing};
use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route, Routing};
use vmbell_hypervisor::{
    Doorbell, Error, IRQ_ARCH, IoEvents, IrqTrigger, Irqfd, Irqs, Payload, RemoveDoorbell,
};

thread_local! {
    /// The doorbells, which one machine after another uses. A machine removes its doorbells when it ends. Zeroing a
    /// table of 8 MiB for each machine took a third of the time.
    static SET: Arc<Set> = Arc::default();
}

/// The doorbells of a machine. Most runs have no doorbell.
pub struct Doorbells {
    set: LazyLock<Arc<Set>>,
    /// The last value that rang: all doorbells with a payload share it.
    last: Arc<AtomicU64>,
}

#[derive(Default)]
struct Set(DoorbellSet);

struct Last(Arc<AtomicU64>);

impl Payload for Last {
    fn value(&self) -> Option<u64> {
        Some(self.0.load(Acquire))
    }
}

impl Default for Doorbells {
    fn default() -> Self {
        Self {
            set: LazyLock::new(|| SET.with(Arc::clone)),
            last: Arc::default(),
        }
    }
}

impl Doorbells {
    /// Rings as a vCPU does.
    pub fn bell(&self) -> Bell {
        self.set.0.bell()
    }

    /// Stores the value of a doorbell, before the doorbell rings.
    pub fn store(&self, value: u32) {
        self.last.store(value.into(), Release);
    }
}

impl IoEvents for Doorbells {
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error> {
        let registered = self.set.0.register(event, address, datamatch, sharing);
        registered.map_err(|error| match error {
            RegisterError::Doorbell(rule) => rule.into(),
            RegisterError::Signal(source) => Error::Backend(source.into()),
        })?;
        let set = Arc::downgrade(&*self.set);
        Ok(Doorbell::new(event, set, address, datamatch, sharing))
    }

    /// Registers a doorbell whose payload has 4 bytes.
    fn register_payload(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        _: u32,
    ) -> Result<Doorbell, Error> {
        let any = Datamatch::U32(None);
        let doorbell = self.register_ioevent(event, address, any, Sharing::Exclusive)?;
        Ok(doorbell.with_payload(Box::new(Last(Arc::clone(&self.last)))))
    }
}

impl RemoveDoorbell for Set {
    fn remove_doorbell(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        _: Sharing,
    ) -> Result<(), Error> {
        Ok(self.0.unregister(event, address, datamatch)?)
    }
}

/// Interrupts that no guest receives.
#[derive(Debug)]
pub struct Interrupts;

impl IrqTrigger for Interrupts {
    fn signal(&self) {}
}

impl Irqs for Interrupts {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        _: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        let trigger = Some(Box::new(Self) as Box<dyn IrqTrigger>);
        Ok(Irqfd::new(event, gsi, trigger, |_| Ok(())))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        Ok(Routing::new(routes, IRQ_ARCH).map(drop)?)
    }

    fn set_line(&self, _: Gsi, _: bool) -> Result<(), Error> {
        unreachable!("the device has no line")
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        msi.check(IRQ_ARCH)?;
        Ok(true)
    }
}
