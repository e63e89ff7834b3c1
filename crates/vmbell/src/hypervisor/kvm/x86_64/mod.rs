//! The x86-64 part of the KVM backend: what a guest has besides memory and vCPUs, a vCPU's initial state, its
//! `cpuid`, the description of a fault, the trials of capabilities, bare loops, and resets of a vCPU. The trials and
//! loops run guest code.

pub mod bare;
pub mod boot;
pub mod cpuid;
pub mod entry;
pub mod exit_reasons;
pub mod last_words;
pub mod reset;
pub mod trial;
pub mod vm;
