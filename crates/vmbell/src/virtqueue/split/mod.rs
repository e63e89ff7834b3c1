//! The split ring: a descriptor table, an available ring of the driver's and a used ring of the
//! device's (virtio 1.3, 2.7).

mod device;
mod driver;
mod layout;
mod ring;
mod used;
mod walk;

pub use device::SplitDevice;
pub use driver::SplitDriver;
pub use layout::SplitLayout;
pub use ring::SplitRing;
pub(super) use ring::UsedElement;
