//! What of the KVM backend belongs to x86-64: the state that a vCPU starts with, what its `cpuid` says, what it
//! leaves behind when it faults, and the trials and bare loops, which are guest code.

pub mod bare;
pub mod boot;
pub mod cpuid;
pub mod entry;
pub mod last_words;
pub mod trial;
