//! Rings bells between a guest and its host: the mechanisms, for any VMM or driver.
//!
//! A guest *rings* its host: a write that only means "look now". A host *interrupts* its guest. Modules are in layers,
//! low to high, and nothing imports upward:
//!
//! - [`quiesce`]: memory behind readers that take no lock; [`eventfd`]: eventfds, and which one a descriptor is;
//!   [`memory`]: guest memory; [`thread`]: the threads of a guest
//! - [`bus`]: which device answers an address; [`doorbell`]: which writes ring, and whom they signal
//! - [`irq`]: the words of interrupts: GSIs, routes, messages, lines
//! - [`virtqueue`]: shared rings, both sides of them
//!
//! Each works without the rest. `embed/` of the repository is a VMM of one file with a [`doorbell::DoorbellSet`] and a
//! [`bus::Bus`] in its own KVM loop. `vmbell-hypervisor` and `vmbell-usermode` run guests, `vmbell-devices` and
//! `vmbell-vfio` are what a guest sees, and `vmbell-vmm` is a machine of all that; `docs/architecture.md` has the
//! picture.

pub mod bus;
pub mod doorbell;
pub mod eventfd;
pub mod irq;
pub mod memory;
pub mod quiesce;
pub mod thread;
pub mod virtqueue;
