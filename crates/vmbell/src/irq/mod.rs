//! Interrupts from host to guest: the types that every backend and every device uses.
//!
//! A device names a line by its [`Gsi`]. A [`Route`] leads the GSI to a pin of the I/O APIC or to an [`Msi`]; on arm64
//! the pin is a shared peripheral interrupt of the [`Gic`]. [`Irqchip`] says which interrupt controllers are below the
//! VMM. The rules are those of KVM's API, and are checked here for all backends. The interrupt controllers themselves
//! are in the kernel or in the usermode backend. The checks run on the caller's thread.
//!
//! ```
//! use std::cell::Cell;
//! use vmbell::irq::{Gsi, IrqArch, IrqError, LevelLine, Msi, Route, Routing, Target};
//!
//! # fn main() -> Result<(), IrqError> {
//! // A table of routes is checked as a whole.
//! let gsi = Gsi::new(24)?;
//! let route = Route { gsi, target: Target::Msi(Msi::fixed(0, 0x51)) };
//! assert!(Routing::new(&[route], IrqArch::X86_64)?.target(gsi).is_some());
//! let twice = Routing::new(&[route, route], IrqArch::X86_64);
//! assert!(matches!(twice, Err(IrqError::RoutedTwice { .. })));
//!
//! // Two devices on one line: it is up while any of them asserts it. `Irqs::set_line` would drive it in a guest.
//! let up = Cell::new(false);
//! let line = LevelLine::new(|level| Ok::<_, IrqError>(up.set(level)));
//! let (mut one, mut other) = (line.connect(), line.connect());
//! one.assert()?;
//! other.assert()?;
//! one.deassert()?;
//! assert!(up.get());
//! other.deassert()?;
//! assert!(!up.get());
//! # Ok(())
//! # }
//! ```

mod gsi;
mod irqchip;
mod line;
mod msi;
mod routing;

pub use gsi::{Gsi, IrqError};
pub use irqchip::{Gic, IrqArch, Irqchip};
pub use line::{Activity, ForwardedLine, LevelLine, LineSource};
pub use msi::Msi;
pub use routing::{Route, Routing, Target};
