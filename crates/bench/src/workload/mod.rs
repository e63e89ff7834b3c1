//! Fixed work through a virtqueue within this process: a driver thread and a device thread that wake
//! each other with eventfds, as Linux's `virtio_test` does with vhost.
//!
//! The work is a number of buffers, and both sides sleep when there is nothing to do, so two variants of
//! [`WorkloadOptions`] differ in what they cost, not in how long they spin. With [`Threads::One`] the sides take turns
//! on the caller's thread, so that even the number of instructions is the same in every run.

mod device;
mod driver;
mod error;
mod link;
mod options;
mod run;
mod subject;

pub use error::WorkloadError;
pub use options::{Batch, OptionsError, Threads, Tokens, WorkloadOptions};
pub use run::{Role, WorkloadResult, run};
pub use subject::entry;

#[cfg(test)]
#[path = "run_test.rs"]
mod tests;
