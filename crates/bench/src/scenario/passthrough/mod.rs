//! A device of the host that the guest drives itself: what an interrupt of it and an access to a register of it cost,
//! past the VMM and through it.
//!
//! On x86-64 the device is QEMU's edu, on arm64 a PL031 clock; the lab has both (`vmbell lab -- vmbell bench 'passthrough-*'`,
//! `vmbell lab --arch aarch64 -- vmbell bench 'platform-irq-*'`). The guest raises its interrupts by a store to a register. All
//! rows share the device and have it in their guests in turn.

mod access;
mod assigned;
mod case;
mod edu;
mod entries;
mod interrupt;
mod pl031;
mod turn;

pub use entries::devices;
pub(super) use entries::entries;
