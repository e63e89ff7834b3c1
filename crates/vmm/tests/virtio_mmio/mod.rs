//! A virtqueue that a guest drives, served in every way: what it sends comes back as it should, and
//! no exit is paid that the way does not have.

mod budget;
mod interrupt;
mod roundtrip;
