//! Notifications between a guest and its host, for any VMM: doorbells and interrupts.
//!
//! A guest *rings* its host: a write that only means "look now". A host *interrupts* its guest. The modules are in
//! layers, low to high, and no module imports from a higher layer:
//!
//! - [`quiesce`]: frees memory that readers use without a lock; [`eventfd`]: eventfds and their identity;
//!   [`memory`]: guest memory; [`thread`]: the threads of a guest
//! - [`bus`]: which device answers an address; [`doorbell`]: which writes ring, and which eventfds they signal
//! - [`irq`]: the types of interrupts: GSIs, routes, messages, lines
//!
//! Each module works without the rest. `embed/` in the repository is a VMM in one file, with a
//! [`doorbell::DoorbellSet`] and a [`bus::Bus`] in its own KVM loop. `vmbell-virtqueue` has the rings that guest and
//! host share, `vmbell-hypervisor` and `vmbell-usermode` run guests, and `vmbell-devices` and `vmbell-vfio` have the
//! devices that a guest sees. `vmbell-vmm` builds a machine from all of them; `docs/architecture.md` has the picture.

pub mod bus;
pub mod doorbell;
pub mod eventfd;
pub mod irq;
pub mod memory;
pub mod quiesce;
#[allow(clippy::disallowed_types, reason = "these locks are made of those")]
pub mod sync;
pub mod thread;
