//! The split ring: a descriptor table, the available ring, which the driver writes, and the used ring, which the
//! device writes (virtio 1.3, 2.7).

mod device;
mod driver;
mod layout;
mod ring;
mod used;

pub use device::SplitDevice;
pub use driver::SplitDriver;
pub use layout::SplitLayout;
pub use ring::SplitRing;
pub(super) use ring::UsedElement;
