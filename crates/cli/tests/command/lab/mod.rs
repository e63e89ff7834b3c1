//! `vmbell lab` from outside, in cases that need neither the network nor a boot.

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
