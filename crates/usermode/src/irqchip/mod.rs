//! The irqchip of a guest: local APICs, I/O APIC, GSI routes and irqfds, which the kernel does not provide
//! here.
//!
//! The stub has the local APICs, paravirtual EOI, and the I/O APIC's redirection entries and lines
//! ([`vmbell_core::lapic`], [`vmbell_core::pv_eoi`], [`vmbell_core::ioapic`]), in memory that monitor and sandbox both
//! map. This module has the parts that only the monitor has: the I/O APIC's registers, the routes, the irqfds, and the
//! EOIs that the stub cannot finish. It runs on the thread that raises or ends an interrupt, under one lock; only MSIs
//! that a caller sends directly take no lock.
//!
//! The models in `models/` check the state that threads share here, under every interleaving. The library's root module
//! includes them, because nothing else of a backend is compiled for the model checker.

mod apics;
mod controller;
mod interrupts;
mod ioapic;
mod irqfd;
mod messages;

#[cfg(test)]
mod tests;

pub use interrupts::Interrupts;
pub use ioapic::BASE as IOAPIC_BASE;
