//! Doorbells: guest writes that signal eventfds.
//!
//! A [`DoorbellSet`] has the doorbells of a guest whose VMM looks writes up in its own process. It decides which
//! registrations are allowed (the rules and errors of Linux `virt/kvm/eventfd.c`, plus groups), and keeps a table. Each
//! vCPU thread looks writes up through its own [`Bell`], while the table changes.
//!
//! Registration runs on the thread that configures devices; only the lookup runs on vCPUs.
//!
//! A group is several doorbells on one address:
//!
//! ```
//! use vmbell::doorbell::{Datamatch, DoorbellSet, IoEventAddress, Sharing};
//! use vmbell::eventfd::{EFD_NONBLOCK, EventFd};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let place = IoEventAddress::Pio(0x510);
//! let (all, seven) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);
//! let doorbells = DoorbellSet::new();
//! doorbells.register(&all, place, Datamatch::U16(None), Sharing::Group)?;
//! doorbells.register(&seven, place, Datamatch::U16(Some(7)), Sharing::Group)?;
//! let mut bell = doorbells.bell();
//! assert!(bell.ring(place, &6_u16.to_le_bytes()) && bell.ring(place, &7_u16.to_le_bytes()));
//! assert!(!bell.ring(place, &[7]), "another width");
//! assert_eq!((all.read()?, seven.read()?), (2, 1));
//! # Ok(())
//! # }
//! ```

mod chain;
mod entries;
mod error;
mod pattern;
mod registry;
mod set;
mod storage;
mod writer;

pub use error::{DoorbellError, RegisterError};
pub use pattern::{Datamatch, IoEventAddress, Pattern};
pub use set::{Bell, DoorbellSet};

/// The table of a [`DoorbellSet`] by itself, for a VMM that keeps the table in other memory: the usermode backend
/// shares it with the process that runs the guest.
///
/// One thread writes the table, and any thread looks writes up. A lookup returns the numbers that the VMM has given to
/// its eventfds. After a removal, a number may be used again once all lookups that began before the removal have ended.
///
/// ```
/// use std::convert::Infallible;
///
/// use vmbell::doorbell::table::{Kind, Table, TableWriter};
/// use vmbell::doorbell::{IoEventAddress, Pattern, Sharing};
/// use vmbell::eventfd::{EFD_NONBLOCK, EventFd, EventId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event = EventId::of(&EventFd::new(EFD_NONBLOCK)?)?;
/// let (address, pattern) = (IoEventAddress::Pio(0x510), Pattern { len: 2, value: None });
/// let (table, mut writer) = (Table::boxed(), TableWriter::new(32));
/// let number = || Ok::<_, Infallible>(7);
/// writer.register(&table, event, address, pattern, Sharing::Exclusive, number)?;
/// assert!(table.lookup(Kind::Pio, 0x510, 2, 0x1234).iter().eq([7]));
///
/// let removal = writer.unlink(&table, event, address, pattern)?;
/// // Here a VMM waits for the lookups that have begun.
/// assert_eq!(writer.finish(removal), 7);
/// # Ok(())
/// # }
/// ```
pub mod table {
    pub use crate::doorbell::writer::{Removal, TableWriter};
    pub use vmbell_core::table::{Kind, Table};
}

/// The default limit for the doorbells of one group (iosignalfd's `KVM_MAX_IOSIGNALFD_ITEMS`).
pub const DEFAULT_MAX_ITEMS: u32 = 32;

/// Whether a doorbell may share its address and length with others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// KVM's rule: a write signals one eventfd, and a collision is an error.
    #[default]
    Exclusive,
    /// The doorbell is an item of a group: a write signals all items that match.
    Group,
}
