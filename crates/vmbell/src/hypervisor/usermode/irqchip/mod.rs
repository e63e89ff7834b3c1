//! The irqchip of a guest: local APICs, I/O APIC, routes and irqfds, where the kernel has none.
//!
//! Local APICs, paravirtual EOI, and the I/O APIC's redirection entries and lines are the stub's
//! ([`stub::lapic`], [`stub::pv_eoi`], [`stub::ioapic`]), in memory that both sides have. Here is what only
//! the monitor has: the I/O APIC's registers, the routes, the irqfds, the thread that waits for those, and the
//! way back from an EOI to a resamplefd. Whoever raises or ends an interrupt runs it, under one lock.
//!
//! `models/` checks what threads share here, under every interleaving. The library's root includes it, since
//! nothing else of a backend is compiled for the model checker.

mod apics;
mod controller;
mod eoi_exit_bitmap;
mod interrupts;
mod ioapic;
mod resampler;
mod watcher;

pub use interrupts::Interrupts;
pub use watcher::IrqfdWatcher;

#[cfg(test)]
mod tests;
