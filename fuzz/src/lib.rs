//! What the fuzz targets do with their bytes. `tests/fuzz_targets.rs` compiles the same
//! files, to run them for a while with stable Rust.

pub mod device;
pub mod device_tree;
pub mod driver;
pub mod image;
pub mod input;
pub mod pci;
pub mod state;
pub mod tables;
pub mod vfio;
pub mod virtio;
