//! The I/O APIC's pins and lines, as far as both the monitor and the stub use them: a device raises a line on a
//! thread of the monitor, and the stub ends its interrupt without the monitor.
//!
//! The redirection entries, the resamplefds and which lines are forwarded ([`Pins`]) are written by the monitor only;
//! the sandbox reads them. The state of the lines ([`Lines`]) is written by both, one atomic word for each line. The
//! rules are those of the 82093AA data sheet and, where that leaves a choice, of Linux `arch/x86/kvm/ioapic.c`. The
//! guest's view, IOREGSEL and IOWIN, is in the monitor alone.
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
