//! Interrupts to the guest: irqfds, routes, lines and messages, all handled by the kernel on the caller's thread. The
//! errno of a refusal is translated into an error of [`irq`](vmbell::irq).

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_MSI_VALID_DEVID, KvmIrqRouting,
    kvm_irq_routing_entry, kvm_irq_routing_entry__bindgen_ty_1, kvm_irq_routing_irqchip,
    kvm_irq_routing_msi, kvm_irq_routing_msi__bindgen_ty_1, kvm_msi,
};
use kvm_ioctls::VmFd;
use vmbell::eventfd::EventFdError;
use vmbell::irq::{ForwardedLine, Gic, Gsi, IrqError, Irqchip, Msi, Route, Routing, Target};
use vmm_sys_util::eventfd::EventFd;

use super::super::{Capability, Error, IRQ_ARCH, Irqfd, Irqs};
use super::arch::vm;
use super::vm::KvmVm;

/// Why KVM has no [`Capability::ForwardedLines`].
pub const NO_FORWARDED_LINES: &str = "kvm reports the end of a level interrupt by a resamplefd, and in no other way to a device of a vmm";

/// What a GSI drives when its level is set.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    target_arch = "x86_64",
    allow(dead_code, reason = "the kernel follows the routes there")
)]
pub enum Drive {
    /// The line with this number in `KVM_IRQ_LINE`.
    Line(u32),
    /// This message, when the level is high.
    Message(Msi),
    Nothing,
}

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
        // The kernel raises the interrupt on the thread that writes the eventfd, so nothing is faster.
        Ok(Irqfd::new(event, gsi, None, move |event| {
            let Some(guest) = guest.upgrade() else {
                return Ok(());
            };
            let result = guest.slots.vm().unregister_irqfd(event, gsi.number());
            result.map_err(|error| refusal(error, irqchip, event, false))
        }))
    }

    fn set_routing(&self, routes: &[Route]) -> Result<(), Error> {
        // A guest program cannot mask the PIC; any other guest has a PIC, as a PC has.
        let pic = self.guest.boot_area.is_none() && self.guest.irqchip == Irqchip::Full;
        // For a guest without an ITS, the kernel accepts a message and never sends it.
        let is_message = |route: &Route| matches!(route.target, Target::Msi(_));
        if self.guest.parts.gic() == Some(Gic::V2) && routes.iter().any(is_message) {
            return Err(IrqError::NoIts.into());
        }
        let routing = route(self.descriptor(), self.guest.irqchip, routes, pic)?;
        self.guest.lines.follow(routing);
        Ok(())
    }

    fn set_line(&self, gsi: Gsi, level: bool) -> Result<(), Error> {
        require(self.guest.irqchip)?;
        match self.guest.lines.drive(gsi) {
            Drive::Line(number) => self
                .descriptor()
                .set_irq_line(number, level)
                .map_err(Error::system("drive a line (KVM_IRQ_LINE)")),
            Drive::Message(msi) if level => self.signal_msi(msi).map(drop),
            Drive::Message(_) | Drive::Nothing => Ok(()),
        }
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

fn require(irqchip: Irqchip) -> Result<(), IrqError> {
    match irqchip {
        Irqchip::None => Err(IrqError::NoIrqchip),
        Irqchip::Split | Irqchip::Full => Ok(()),
    }
}

/// Returns the rule that the kernel's errno reports (Linux `virt/kvm/eventfd.c`), or any other error unchanged.
fn refusal(error: kvm_ioctls::Error, irqchip: Irqchip, event: &EventFd, resample: bool) -> Error {
    let fd = event.as_raw_fd();
    let rule = match (error.errno(), irqchip) {
        (libc::EBUSY, _) => IrqError::Busy,
        (libc::EBADF, _) => EventFdError::BadFd { fd }.into(),
        // x86-64, and arm64.
        (libc::EINVAL | libc::EAGAIN, Irqchip::None) => IrqError::NoIrqchip,
        (libc::EINVAL, Irqchip::Split) if resample => IrqError::NoResample,
        _ => return Error::system("register or remove an irqfd")(error),
    };
    rule.into()
}

/// Replaces the kernel's table of routes and returns the new table. Refuses an invalid table, and routes to pins with a
/// split irqchip. With `pic`, the routes to the first pins also lead to the PIC, as in the kernel's initial table.
pub fn route(vm: &VmFd, irqchip: Irqchip, table: &[Route], pic: bool) -> Result<Routing, Error> {
    let routing = Routing::new(table, IRQ_ARCH)?;
    require(irqchip)?;
    if irqchip == Irqchip::Split {
        routing.check_without_pins()?;
    }
    let mut entries: Vec<_> = routing.routes().map(entry).collect();
    if pic {
        let inputs = routing.routes().filter_map(|route| match route.target {
            Target::Pin(pin) => Some(pin_entry(route.gsi, vm::pic_pin(pin)?)),
            Target::Msi(_) => None,
        });
        entries.extend(inputs);
    }
    let table = KvmIrqRouting::from_entries(&entries).map_err(|error| Error::System {
        operation: "make a table of routes",
        source: io::Error::other(format!("{error:?}")),
    })?;
    vm.set_gsi_routing(&table)
        .map_err(Error::system("set the routes (KVM_SET_GSI_ROUTING)"))?;
    Ok(routing)
}

fn entry(route: Route) -> kvm_irq_routing_entry {
    let msi = match route.target {
        Target::Pin(pin) => return pin_entry(route.gsi, vm::pin(pin)),
        Target::Msi(msi) => msi,
    };
    let (low, high) = halves(msi.address);
    let target = kvm_irq_routing_msi {
        address_lo: low,
        address_hi: high,
        data: msi.data,
        __bindgen_anon_1: kvm_irq_routing_msi__bindgen_ty_1 {
            devid: msi.device.unwrap_or_default(),
        },
    };
    kvm_irq_routing_entry {
        gsi: route.gsi.number(),
        type_: KVM_IRQ_ROUTING_MSI,
        flags: msi.device.map_or(0, |_| KVM_MSI_VALID_DEVID),
        u: kvm_irq_routing_entry__bindgen_ty_1 { msi: target },
        ..kvm_irq_routing_entry::default()
    }
}

fn pin_entry(gsi: Gsi, irqchip: kvm_irq_routing_irqchip) -> kvm_irq_routing_entry {
    kvm_irq_routing_entry {
        gsi: gsi.number(),
        type_: KVM_IRQ_ROUTING_IRQCHIP,
        u: kvm_irq_routing_entry__bindgen_ty_1 { irqchip },
        ..kvm_irq_routing_entry::default()
    }
}

fn halves(address: u64) -> (u32, u32) {
    ((address & 0xffff_ffff) as u32, (address >> 32) as u32)
}
