//! What the guest sees: the doorbell harness, rung by every path there is.
//!
//! The same bell can hang on the bus (a device model, rung by a heavy exit), behind an eventfd
//! (rung by a light one, heard by a thread) or on a word in shared memory (heard by whoever polls).

mod counter;
mod hook;
mod listener;
mod poller;

pub use counter::DoorbellCounter;
pub use hook::Hook;
pub use listener::Listener;
pub use poller::Poller;
