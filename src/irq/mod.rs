//! Host to guest: lines, routes and messages, and what happens at the end of an interrupt.
//!
//! Pure logic, apart from any backend. The parts that run beside the guest, the local APIC
//! ([`Lapic`]) and the host's side of paravirtual EOI ([`PvEoi`]), are the `stub` crate's.

pub mod abi;
mod controller;
mod error;
mod gsi;
pub mod ioapic;
mod irqfd;
mod line;
mod msi;
mod routing;

pub use stub::lapic::{Destination, Effect, Eoi, FIRST_VECTOR, Lapic, Message, Mode, Raise};
pub use stub::pv_eoi::{Completion, GuestByte, PvEoi};

pub use controller::{Controller, LocalApics, Resample, Source};
pub use error::IrqError;
pub use gsi::Gsi;
pub use ioapic::IoApic;
pub use irqfd::{Irqfds, Trigger};
pub use line::{LevelLine, LineSource};
pub use msi::Msi;
pub use routing::{Route, Routing, Target};

/// How many pins the I/O APIC has (82093AA).
pub const PINS: usize = 24;

#[cfg(test)]
mod tests;

#[cfg(test)]
#[cfg(loom)]
#[path = "loom_test.rs"]
mod models;
