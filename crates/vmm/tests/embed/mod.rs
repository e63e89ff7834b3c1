//! The library as a VMM takes it in: the choice of a backend, memory of the VMM's own, and the examples.

// Two backends, and examples that choose between them.
#[cfg(target_arch = "x86_64")]
mod backend;
// They are about the usermode backend.
#[cfg(target_arch = "x86_64")]
mod descriptors;
#[cfg(target_arch = "x86_64")]
mod examples;
mod own_memory;
