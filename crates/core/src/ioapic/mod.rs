//! The part of the I/O APIC's pins and lines that both the monitor and the stub use: a device raises a line on a thread
//! of the monitor, and the stub ends the line's interrupt without the monitor.
//!
//! Only the monitor writes the redirection entries, the resamplefds and which lines are forwarded ([`Pins`]); the
//! sandbox reads them. Both write the state of the lines ([`Lines`]), one atomic word for each line. The rules are
//! those of the 82093AA data sheet and, where it leaves a choice, of Linux `arch/x86/kvm/ioapic.c`. The registers that
//! the guest sees, IOREGSEL and IOWIN, are in the monitor alone.
//!
//! ```
//! use vmbell_core::ioapic::{Line, Pin, PinLine, RedirectionEntry, Source};
//!
//! let (pin, line) = (Pin::default(), Line::default());
//! pin.program(RedirectionEntry(1 << 15 | 0x41)); // Level-triggered.
//! let both = PinLine { pin: &pin, line: &line };
//! let mut sent = Vec::new();
//! both.drive(Source::User, true, |message| {
//!     sent.push(message.vector);
//!     true // A local APIC accepted it.
//! });
//! both.drive(Source::User, true, |_| unreachable!("the line waits for its EOI"));
//! assert_eq!(sent, [0x41]);
//! assert!(line.has_remote_irr());
//! ```

mod line;
mod pin_line;
mod pins;

pub use line::{Activity, Line, LineState, Lines, Source};
pub use pin_line::{EoiActions, PinLine, begin_service, eoi_pins};
pub use pins::{PIN_RESAMPLEFDS, Pin, Pins, RedirectionEntry};

/// How many pins the I/O APIC has (82093AA).
pub const PINS: usize = 24;
