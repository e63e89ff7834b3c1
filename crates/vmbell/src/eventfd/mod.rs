//! Identifies eventfds as the kernel does: by the kernel object, not by the descriptor.
//!
//! Doorbells and irqfds are registered with a descriptor, and found again by the eventfd behind it. [`EventFd`] is
//! the type of the vmm-sys-util crate that this library's interface has, in the version that it uses.
//!
//! ```
//! use vmbell::eventfd::{EFD_NONBLOCK, EventFd, EventId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (one, other) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?);
//! assert_eq!(EventId::of(&one)?, EventId::of(&one.try_clone()?)?);
//! assert_ne!(EventId::of(&one)?, EventId::of(&other)?);
//! # Ok(())
//! # }
//! ```

mod error;
mod id;

pub use error::EventFdError;
pub use id::EventId;
pub use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, EventFd};
