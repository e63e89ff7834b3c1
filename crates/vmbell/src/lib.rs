//! Notifications between a guest and its host, for any VMM: doorbells and interrupts.
//!
//! A guest *rings* its host: a write that only means "look now". A host *interrupts* its guest. Modules are in layers,
//! low to high, and nothing imports upward:
//!
//! - [`quiesce`]: frees memory that readers use without a lock; [`eventfd`]: eventfds and their identity;
//!   [`memory`]: guest memory; [`thread`]: the threads of a guest
//! - [`bus`]: which device answers an address; [`doorbell`]: which writes ring, and which eventfds they signal
//! - [`irq`]: the types of interrupts: GSIs, routes, messages, lines
//!
//! Each works without the rest. `embed/` of the repository is a VMM of one file with a [`doorbell::DoorbellSet`] and a
//! [`bus::Bus`] in its own KVM loop. `vmbell-virtqueue` has the rings that both share, `vmbell-hypervisor` and
//! `vmbell-usermode` run guests, `vmbell-devices` and `vmbell-vfio` are what a guest sees, and `vmbell-vmm` is a
//! machine of all that; `docs/architecture.md` has the picture.

pub mod bus;
pub mod doorbell;
pub mod eventfd;
pub mod irq;
pub mod memory;
pub mod quiesce;
#[allow(clippy::disallowed_types, reason = "these locks are made of those")]
pub mod sync;
pub mod thread;
