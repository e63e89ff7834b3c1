//! The local APIC: its requests (IRR), the vectors in service (ISR), priorities and registers.
//!
//! Follows Intel SDM volume 3, chapter "Advanced Programmable Interrupt Controller", as far as a paravirtual guest uses
//! it: fixed and lowest-priority interrupts, priorities, EOI, and IPIs, in xAPIC and x2APIC mode. There is no local
//! vector table and no timer; their registers count as reserved. Where the manual leaves a choice, Linux
//! `arch/x86/kvm/lapic.c` decides.
//!
//! A [`Lapic`] is plain data in memory that the monitor and the sandbox share. A sender of interrupts changes IRR and
//! TMR, on any thread. The monitor changes the EOI exit bitmap. The thread that runs the vCPU changes the other fields.
//!
//! ```
//! use vmbell_core::lapic::{Eoi, Lapic, Raise, Register};
//!
//! let lapic = Lapic::default();
//! lapic.reset(0);
//! let _ = lapic.write(Register::Svr, 0x1ff); // The guest switches it on.
//! assert_eq!(lapic.raise(0x41, false), Raise::Accepted);
//! assert_eq!(lapic.raise(0x41, false), Raise::Coalesced);
//! assert_eq!(lapic.next_interrupt(), Some(0x41));
//! assert!(lapic.start_service(0x41));
//! assert_eq!(lapic.eoi(), Some(Eoi { vector: 0x41, level: false }));
//! ```

mod message;
mod registers;
mod service;
mod state;

pub use message::{Destination, Message, Mode};
pub use registers::{Effect, MMIO_BASE, MMIO_SIZE, MSR_APIC_BASE, MSR_BASE, MSR_END, Register};
pub use service::{Eoi, Raise};
pub use state::{FIRST_VECTOR, Lapic, VectorSet};
