//! A device of the host that the guest drives itself: what an interrupt of it and an access to a register of it cost,
//! past the VMM and through it.
//!
//! The device is QEMU's edu, which the lab has (`vmbell lab bench 'passthrough-*'`): the guest raises its interrupts by
//! a store to a register. All rows share the device and have it in their guests by turns.

mod access;
mod case;
mod edu;
mod entries;
mod interrupt;
mod turn;

pub use entries::devices;
pub(super) use entries::entries;
