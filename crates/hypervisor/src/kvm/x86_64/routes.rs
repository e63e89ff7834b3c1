//! Routes and lines on x86-64: pins of the I/O APIC and of the PIC. The kernel keeps the table of routes and follows it
//! when a line changes, on the thread that drives the line.

use kvm_bindings::{
    KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE, kvm_irq_routing_irqchip,
};

use super::super::interrupts::Drive;
use vmbell::irq::{Gsi, Routing};

/// The lines of a guest.
#[derive(Debug, Default)]
pub struct Lines(());

impl Lines {
    /// Notes the routes that the kernel has from now on.
    pub fn follow(&self, _: Routing) {}

    /// What a GSI drives.
    pub const fn drive(&self, gsi: Gsi) -> Drive {
        Drive::Line(gsi.number())
    }
}

/// The pin of the I/O APIC with this number.
pub fn pin(pin: u8) -> kvm_irq_routing_irqchip {
    kvm_irq_routing_irqchip {
        irqchip: KVM_IRQCHIP_IOAPIC,
        pin: pin.into(),
    }
}

/// The pin of the PIC beside this pin of the I/O APIC, if the PIC has that input.
pub fn pic_pin(pin: u8) -> Option<kvm_irq_routing_irqchip> {
    const INPUTS: u8 = 8;
    let irqchip = match pin / INPUTS {
        0 => KVM_IRQCHIP_PIC_MASTER,
        1 => KVM_IRQCHIP_PIC_SLAVE,
        _ => return None,
    };
    Some(kvm_irq_routing_irqchip {
        irqchip,
        pin: (pin % INPUTS).into(),
    })
}
