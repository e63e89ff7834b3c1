//! `vmbell lab` from outside, where neither the network nor a boot is needed.

mod bochs;
pub mod ends;
mod inner;
mod kills;
mod mirror;
mod prepare;
mod progress;
mod selftests;
mod starts;
mod status;
pub mod support;
