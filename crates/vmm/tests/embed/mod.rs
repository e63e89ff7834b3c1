//! The library as a VMM uses it: the choice of a backend, the VMM's own memory, and the examples.

// On x86-64 there are two backends, and examples that choose between them.
#[cfg(target_arch = "x86_64")]
mod backend;
// These tests are about the usermode backend.
#[cfg(target_arch = "x86_64")]
mod descriptors;
#[cfg(target_arch = "x86_64")]
mod examples;
mod own_memory;
