//! The kernel's table of routes, from GSIs to the pins of the interrupt controllers and to messages. The calling thread
//! replaces it; the kernel follows it when an irqfd is signalled.

use std::io;

use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_MSI_VALID_DEVID, KvmIrqRouting,
    kvm_irq_routing_entry, kvm_irq_routing_entry__bindgen_ty_1, kvm_irq_routing_irqchip,
    kvm_irq_routing_msi, kvm_irq_routing_msi__bindgen_ty_1,
};
use kvm_ioctls::VmFd;
use vmbell::irq::{Gsi, IrqError, Irqchip, Route, Routing, Target};

use super::arch::vm;
use crate::{Error, IRQ_ARCH};

/// Replaces the kernel's table of routes and returns the new table. Refuses an invalid table, and routes to pins with a
/// split irqchip. With `pic`, the routes to the first pins also lead to the PIC, as in the kernel's initial table.
pub fn set(vm: &VmFd, irqchip: Irqchip, table: &[Route], pic: bool) -> Result<Routing, Error> {
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

/// Refuses an interrupt to a guest without interrupt controllers.
pub fn require(irqchip: Irqchip) -> Result<(), IrqError> {
    match irqchip {
        Irqchip::None => Err(IrqError::NoIrqchip),
        Irqchip::Split | Irqchip::Full => Ok(()),
    }
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

/// Returns the low and the high half of a message's address.
pub const fn halves(address: u64) -> (u32, u32) {
    ((address & 0xffff_ffff) as u32, (address >> 32) as u32)
}
