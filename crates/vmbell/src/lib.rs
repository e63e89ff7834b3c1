//! Rings bells between a guest and its host, by every path there is.
//!
//! A guest *rings* its host: a write that only means "look now". A host *interrupts* its guest. Modules stand in layers, low to
//! high, and nothing imports upward:
//!
//! - [`quiesce`]: memory behind readers that take no lock; [`eventfd`]: eventfds, and which one a descriptor is;
//!   [`memory`]: guest memory; [`thread`]: the threads of a guest
//! - [`bus`]: which device answers an address; [`doorbell`]: which writes ring, and whom they signal
//! - [`irq`]: the words of interrupts: GSIs, routes, messages, lines
//! - [`virtqueue`]: shared rings, both sides of them
//! - [`hypervisor`]: who runs the guest
//!
//! The mechanisms work without the rest: [`doorbell::DoorbellSet`] in a VMM of your own, for example. The programs in
//! `examples/` show the mechanisms, each in a page; the crates
//! `vmbell-devices`, `vmbell-vfio` and `vmbell-vmm` have devices, give a guest devices of the host, and make a machine of it all; `docs/architecture.md` has the picture.

// The model checker's atomics have no layout to share with a sandbox: models see the mechanisms only.
pub mod bus;
pub mod doorbell;
pub mod eventfd;
#[cfg(not(loom))]
pub mod hypervisor;
pub mod irq;
pub mod memory;
pub mod quiesce;
#[cfg(not(loom))]
pub mod thread;
pub mod virtqueue;

// The unit tests wait as those in `tests/` do.
#[cfg(all(test, not(loom)))]
#[path = "../../vmm/tests/harness/wait.rs"]
mod wait;
