//! Doorbells and interrupts of this process, with the rules of KVM.

use std::sync::LazyLock;

use vmbell::doorbell::{Bell, Datamatch, DoorbellSet, IoEventAddress, RegisterError, Sharing};
use vmbell::eventfd::EventFd;
use vmbell::irq::{ForwardedLine, Gsi, IrqError, Msi, Route, Routing};
use vmbell_hypervisor::{Error, IoEvents, IrqTrigger, Irqs};

/// The doorbells. Their table is large, and most runs have none.
#[derive(Default)]
pub struct Doorbells(LazyLock<DoorbellSet>);

impl Doorbells {
    /// Rings as a vCPU does.
    pub fn bell(&self) -> Bell {
        self.0.bell()
    }
}

impl IoEvents for Doorbells {
    fn register_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error> {
        let registered = self.0.register(event, address, datamatch, sharing);
        registered.map_err(|error| match error {
            RegisterError::Doorbell(rule) => rule.into(),
            RegisterError::Signal(source) => Error::Backend(source.into()),
        })
    }

    fn unregister_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), Error> {
        Ok(self.0.unregister(event, address, datamatch)?)
    }
}

/// Interrupts that nobody takes.
#[derive(Debug)]
pub struct Interrupts;

impl IrqTrigger for Interrupts {
    fn signal(&self) {}
}

impl Irqs for Interrupts {
    fn register_irqfd(&self, _: &EventFd, _: Gsi, _: Option<&EventFd>) -> Result<(), Error> {
        Ok(())
    }

    fn unregister_irqfd(&self, _: &EventFd, _: Gsi) -> Result<(), Error> {
        Ok(())
    }

    fn irq_trigger(&self, _: &EventFd) -> Result<Box<dyn IrqTrigger>, Error> {
        Ok(Box::new(Self))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        Ok(Routing::new(routes).map(drop)?)
    }

    fn set_line(&self, _: Gsi, _: bool) -> Result<(), Error> {
        unreachable!("the device has no line")
    }

    fn forward_line(&self, gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(IrqError::NoLine { gsi }.into())
    }

    fn unforward_line(&self, gsi: Gsi) -> Result<(), Error> {
        Err(IrqError::NotForwarded { gsi }.into())
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        msi.check()?;
        Ok(true)
    }
}
