//! Routes and lines on arm64: pins are shared peripheral interrupts. `KVM_IRQ_LINE` names such an interrupt and does not
//! follow the routes, so the table is kept here too; any thread reads it.

use std::sync::{Mutex, PoisonError};

use kvm_bindings::{KVM_ARM_IRQ_TYPE_SHIFT, KVM_ARM_IRQ_TYPE_SPI, kvm_irq_routing_irqchip};

use super::super::interrupts::Drive;
use crate::aarch64::FIRST_SPI;
use vmbell::irq::{Gsi, Routing, Target};

/// The lines of a guest.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Routing>);

impl Lines {
    /// Notes the routes that the kernel has from now on.
    pub fn follow(&self, routing: Routing) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = routing;
    }

    /// What a GSI drives.
    pub fn drive(&self, gsi: Gsi) -> Drive {
        let routing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match routing.target(gsi) {
            Some(Target::Pin(pin)) => {
                let intid = FIRST_SPI + u32::from(pin);
                Drive::Line(KVM_ARM_IRQ_TYPE_SPI << KVM_ARM_IRQ_TYPE_SHIFT | intid)
            }
            Some(Target::Msi(msi)) => Drive::Message(msi),
            None => Drive::Nothing,
        }
    }
}

/// The shared peripheral interrupt with this number.
pub fn pin(pin: u8) -> kvm_irq_routing_irqchip {
    kvm_irq_routing_irqchip {
        irqchip: 0,
        pin: pin.into(),
    }
}

/// There is no second controller with such a pin.
pub const fn pic_pin(_: u8) -> Option<kvm_irq_routing_irqchip> {
    None
}
