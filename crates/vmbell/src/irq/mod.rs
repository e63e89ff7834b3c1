//! Host to guest: the words of interrupts that every backend and every device uses.
//!
//! A device knows a line by its [`Gsi`]. A [`Route`] leads that to a pin of the I/O APIC or out as an
//! [`Msi`]; [`Irqchip`] says which of the controllers that end it are below the VMM. The rules are those of
//! KVM's API, checked here for all backends alike; on usermode the controllers themselves are that backend's.

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
