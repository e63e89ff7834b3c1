//! Fixed work through a virtqueue of this process: a driver thread and a device thread that wake
//! each other with eventfds, as Linux's `virtio_test` does with vhost.
//!
//! The work is a number of buffers, and both sides sleep when there is none, so two variants of
//! [`Options`] differ by what they cost and not by how long they spin. [`Threads::One`] lets the
//! sides take turns on the caller's thread: then even instructions are the same from run to run.

mod build;
mod device;
mod driver;
mod link;
mod options;
mod run;
mod subject;

pub use options::{Batch, Options, OptionsError, Threads, Tokens};
pub use run::{Role, Tally, WorkloadError, run};
pub use subject::entry;

#[cfg(test)]
#[path = "run_test.rs"]
mod tests;
