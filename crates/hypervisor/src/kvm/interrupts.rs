//! Interrupts to the guest: irqfds, routes, lines and messages, all handled by the kernel on the caller's thread. The
//! errno of a refusal is translated into an error of [`irq`](vmbell::irq).

use std::os::fd::AsRawFd;
use std::sync::Arc;

use kvm_bindings::{KVM_MSI_VALID_DEVID, kvm_msi};
use vmbell::eventfd::EventFdError;
use vmbell::irq::{ForwardedLine, Gic, Gsi, IrqError, Irqchip, Msi, Route, Target};
use vmm_sys_util::eventfd::EventFd;

use super::super::{Capability, Error, IRQ_ARCH, Irqfd, Irqs};
use super::routes::{self, halves, require};
use super::vm::KvmVm;

/// Why KVM has no [`Capability::ForwardedLines`].
pub const NO_FORWARDED_LINES: &str = "kvm reports the end of a level interrupt by a resamplefd, and in no other way to a device of a vmm";

impl Irqs for KvmVm {
    fn register_irqfd(
        &self,
        event: &Arc<EventFd>,
        gsi: Gsi,
        resample: Option<&EventFd>,
    ) -> Result<Irqfd, Error> {
        let vm = self.descriptor();
        let result = match resample {
            None => vm.register_irqfd(event, gsi.number()),
            Some(resample) => vm.register_irqfd_with_resample(event, resample, gsi.number()),
        };
        let irqchip = self.guest.irqchip;
        result.map_err(|error| refusal(error, irqchip, event, resample.is_some()))?;
        let guest = Arc::downgrade(&self.guest);
        // No trigger: the kernel raises the interrupt on the thread that writes the eventfd, and nothing is faster.
        Ok(Irqfd::new(event, gsi, None, move |event| {
            let Some(guest) = guest.upgrade() else {
                return Ok(());
            };
            let result = guest.vm().unregister_irqfd(event, gsi.number());
            result.map_err(|error| refusal(error, irqchip, event, false))
        }))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        // A guest program gets no routes to the PIC, because it cannot mask it. Any other guest has a PIC, as on
        // hardware.
        let pic = self.guest.boot_area.is_none() && self.guest.irqchip == Irqchip::Full;
        // For a guest without an ITS, the kernel accepts a message and never sends it.
        let is_message = |route: &Route| matches!(route.target, Target::Msi(_));
        if self.guest.parts.gic() == Some(Gic::V2) && routes.iter().any(is_message) {
            return Err(IrqError::NoIts.into());
        }
        let routing = routes::set(self.descriptor(), self.guest.irqchip, routes, pic)?;
        self.guest.lines.follow(routing);
        Ok(())
    }

    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error> {
        require(self.guest.irqchip)?;
        let message = self.guest.lines.drive(self.descriptor(), gsi, level)?;
        if let Some(msi) = message
            && level
        {
            self.signal_msi(msi)?;
        }
        Ok(())
    }

    fn forward_line(&self, _gsi: Gsi) -> Result<Box<dyn ForwardedLine>, Error> {
        Err(Error::Unsupported {
            backend: "kvm",
            capability: Capability::ForwardedLines,
            reason: NO_FORWARDED_LINES.to_owned(),
        })
    }

    fn signal_msi(&self, msi: Msi) -> Result<bool, Error> {
        msi.check(IRQ_ARCH)?;
        require(self.guest.irqchip)?;
        let (low, high) = halves(msi.address);
        let request = kvm_msi {
            address_lo: low,
            address_hi: high,
            data: msi.data,
            flags: msi.device.map_or(0, |_| KVM_MSI_VALID_DEVID),
            devid: msi.device.unwrap_or_default(),
            ..kvm_msi::default()
        };
        match self.descriptor().signal_msi(request) {
            Ok(taken) => Ok(taken > 0),
            // The kernel returns -1 if no local APIC has this address, which looks like EPERM here.
            Err(error) if error.errno() == libc::EPERM => Ok(false),
            // The guest has not enabled its ITS yet.
            Err(error) if error.errno() == libc::EBUSY => Ok(false),
            Err(error) if error.errno() == libc::ENODEV => Err(IrqError::NoIts.into()),
            Err(error) => Err(Error::system("send a message (KVM_SIGNAL_MSI)")(error)),
        }
    }
}

/// Returns the rule that the kernel's errno reports (Linux `virt/kvm/eventfd.c`), or any other error unchanged.
fn refusal(error: kvm_ioctls::Error, irqchip: Irqchip, event: &EventFd, resample: bool) -> Error {
    let fd = event.as_raw_fd();
    let rule = match (error.errno(), irqchip) {
        (libc::EBUSY, _) => IrqError::Busy,
        (libc::EBADF, _) => EventFdError::BadFd { fd }.into(),
        // EINVAL on x86-64, EAGAIN on arm64.
        (libc::EINVAL | libc::EAGAIN, Irqchip::None) => IrqError::NoIrqchip,
        (libc::EINVAL, Irqchip::Split) if resample => IrqError::NoResample,
        _ => return Error::system("register or remove an irqfd")(error),
    };
    rule.into()
}
