//! What the fuzz targets do with their bytes. `tests/virtqueue_fuzz.rs` compiles the same files, to run
//! them for a while with stable Rust.

pub mod device;
pub mod driver;
pub mod input;
