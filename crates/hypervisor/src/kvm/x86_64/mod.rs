//! The x86-64 part of the KVM backend: what the host offers, what a guest has in addition to memory, a vCPU's initial
//! state, its `cpuid`, hypercalls and pins, the description of a fault, the trials of capabilities, and the
//! state of a vCPU and of a guest. The trials run guest code.

pub mod boot;
pub mod cpuid;
pub mod entry;
pub mod exits;
pub mod host;
mod ioctl;
pub mod last_words;
pub mod state;
pub mod support;
mod topology;
pub mod vm;
