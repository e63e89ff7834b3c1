//! Guest to host: which writes ring, and whom they signal.
//!
//! [`Doorbells`] decides who may register (the rules and errors of Linux `virt/kvm/eventfd.c`, plus
//! groups) and keeps a [`stub::table::Table`] up to date, which vCPU threads look writes up in
//! while it changes. A backend lays the table where its trap handler reads it; [`DoorbellSet`] is
//! the same for a VMM that handles its exits itself. [`abi`] reads the kernel's own request.
//!
//! Registration runs on whichever thread configures devices; only the lookup runs on vCPUs.

pub mod abi;
mod address;
mod arena;
mod chain;
mod datamatch;
mod doorbells;
mod error;
mod heap;
mod list;
mod pattern;
mod registry;
mod set;
mod signal;
mod table;
mod word;

pub use crate::eventfd::EventId;
pub use address::IoEventAddress;
pub use datamatch::Datamatch;
#[cfg(not(loom))]
#[cfg(target_arch = "x86_64")]
pub(crate) use doorbells::State as DoorbellState;
pub use doorbells::{Barrier, Doorbells};
pub use error::{DoorbellError, RegisterError};
pub use heap::HeapTable;
pub use pattern::Pattern;
pub use set::{Bell, DoorbellSet};

/// Most items of one group unless told otherwise (iosignalfd's `KVM_MAX_IOSIGNALFD_ITEMS`).
pub const DEFAULT_MAX_ITEMS: u32 = 32;

/// Whether a registration tolerates others on the same address and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// KVM's rule: one eventfd a write, a clash is an error.
    #[default]
    Exclusive,
    /// One item of a group: all items that match are signalled.
    Group,
}
