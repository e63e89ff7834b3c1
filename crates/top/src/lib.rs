//! Measures from outside what the notifications of a host's VMs cost. The VMs may run under any VMM on KVM, and none of
//! them is changed or stopped.
//!
//! `process` finds VMs by their processes' descriptors. `bpf` counts in the kernel by event and address, and `counters`
//! reads KVM's own statistics; without `bpf`, `sampler` looks at the vCPUs' pages. [`sources`] reads all of them into a
//! [`reading::Reading`] of one moment, [`rates`] computes the difference of two readings, and [`model`] assigns it to
//! VMs. With the [`costs`] of a host, [`advice`] says what would be cheaper.

pub mod address;
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
