//! A virtqueue that a guest drives, served in every way: requests come back right, and each way causes only the exits
//! that it must.

mod budget;
mod interrupt;
mod roundtrip;
