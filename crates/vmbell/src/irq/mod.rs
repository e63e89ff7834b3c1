//! Interrupts from host to guest: the types that every backend and every device uses.
//!
//! A device names a line by its [`Gsi`]. A [`Route`] leads the GSI to a pin of the I/O APIC or to an [`Msi`].
//! [`Irqchip`] says which interrupt controllers are below the VMM. The rules are those of KVM's API and are
//! checked here for all backends; the interrupt controllers themselves are the kernel's or the usermode
//! backend's. The checks run on the caller's thread.

mod error;
mod gsi;
mod irqchip;
mod line;
mod msi;
mod routing;

pub use stub::ioapic::PINS;
pub use stub::lapic::{Destination, Message, Mode};

pub use error::IrqError;
pub use gsi::Gsi;
pub use irqchip::Irqchip;
pub use line::{LevelLine, LineSource};
pub use msi::Msi;
pub use routing::{Route, Routing, Target};
