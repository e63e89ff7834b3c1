//! Identifies eventfds as the kernel does, by the kernel object and not by the descriptor, and reads and signals those
//! that others use too without ever blocking.
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

mod id;
mod signaller;

pub use id::{EventFdError, EventId};
pub use signaller::{Signaller, drain};
pub use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, EventFd};
