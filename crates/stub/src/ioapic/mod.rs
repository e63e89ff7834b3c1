//! The I/O APIC's pins and lines, as far as both sides drive them: a device raises a line from a thread
//! of the monitor, and the stub ends its interrupt without the monitor.
//!
//! What a pin sends and whom its EOI tells ([`Pins`]) is the monitor's to write, and the sandbox only
//! reads it. How a line stands ([`Lines`]) both sides write, one atomic word a line. The rules are those
//! of the 82093AA data sheet and, where that leaves a choice, of Linux `arch/x86/kvm/ioapic.c`; the
//! guest's view of it, the registers, is the monitor's alone.

mod entry;
mod line;
mod pins;
mod wire;

pub use entry::Entry;
pub use line::{Line, Lines, Source};
pub use pins::{Pin, Pins, RESAMPLERS};
pub use wire::{EndOfInterrupt, Wire, end};

/// How many pins the I/O APIC has (82093AA).
pub const PINS: usize = 24;
