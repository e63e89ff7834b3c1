//! The packed ring: one ring of descriptors that both sides write, and the driver and device event suppression
//! structures (virtio 1.3, 2.8).

mod device;
mod driver;
mod layout;
mod position;
mod ring;
mod used;

pub use device::PackedDevice;
pub use driver::PackedDriver;
pub use layout::PackedLayout;
pub use ring::PackedRing;
