//! The arm64 part of the KVM backend: what the host offers, what a guest has in addition to memory, a vCPU's initial
//! state, hypercalls and lines, and the description of a fault.

pub mod boot;
pub mod entry;
pub mod exits;
mod gic;
pub mod host;
mod ioctl;
pub mod last_words;
mod register;
pub mod state;
pub mod support;
pub mod vm;
