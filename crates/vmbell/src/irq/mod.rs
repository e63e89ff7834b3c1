//! Host to guest: lines, routes and messages, and what happens at the end of an interrupt.
//!
//! Pure logic, apart from any backend. The parts that run beside the guest are the `stub` crate's: the
//! local APIC ([`Lapic`]), the host's side of paravirtual EOI ([`PvEoi`]), the lines and their ends
//! ([`stub::ioapic`]).

mod controller;
mod error;
mod gsi;
pub mod ioapic;
mod irqchip;
mod irqfd;
mod line;
mod msi;
mod routing;
mod watch;

pub use stub::lapic::{Destination, Effect, Eoi, FIRST_VECTOR, Lapic, Message, Mode, Raise};
pub use stub::pv_eoi::{Completion, GuestByte, PvEoi};

pub use stub::ioapic::{PINS, Source};

pub use controller::{Controller, LocalApics, Resample};
pub use error::IrqError;
pub use gsi::Gsi;
pub use ioapic::IoApic;
pub use irqchip::Irqchip;
pub use irqfd::{Irqfd, Irqfds, Trigger};
pub use line::{LevelLine, LineSource};
pub use msi::Msi;
pub use routing::{Route, Routing, Target};

#[cfg(test)]
mod tests;

#[cfg(test)]
#[cfg(loom)]
mod models;
