//! Identifies eventfds as the kernel does: by the kernel object, not by the descriptor.
//!
//! Doorbells and irqfds are registered with a descriptor, and found again by the eventfd behind it.

mod error;
mod id;

pub use error::EventFdError;
pub use id::EventId;
