//! What the notifications of the VMs that run on a host cost it, seen from outside: VMs of any VMM on KVM, none of which is
//! changed or stopped.
//!
//! `process` finds VMs by their processes' descriptors. There are two sources of counts: `bpf` counts in the kernel by event
//! and address, and `counters` reads KVM's own statistics; without the first, `sampler` looks at the vCPUs' pages. [`sources`]
//! reads them. A [`reading::Reading`] has what all of them said at one moment, [`rates`] makes the difference of two, and [`model`]
//! joins it to VMs. With the [`costs`] of a host, [`advice`] says what would take less.

pub mod advice;
pub mod bpf;
pub mod btf;
pub mod costs;
pub mod counters;
mod exits;
mod guest_name;
pub mod model;
pub mod names;
pub mod process;
pub mod rates;
pub mod reading;
pub mod sampled;
pub mod sampler;
pub mod sources;
pub mod waiters;
