//! Eventfds, told apart as the kernel tells them apart.
//!
//! Doorbells and irqfds are registered by descriptor and known by what is behind it.

mod error;
mod id;

pub use error::EventFdError;
pub use id::EventId;
