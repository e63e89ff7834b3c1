//! Interrupts of assigned devices that the guest ends by itself: its own end of interrupt completes the physical
//! interrupt, and neither an eventfd nor a thread of the host takes part. Any thread may use them.

use std::fmt;

use super::Error;

/// An interrupt of a device that goes to the guest directly, until this is dropped. Then it takes the way through
/// VFIO's eventfds again, also if the guest has not ended it.
pub trait ForwardedInterrupt: Send + Sync + fmt::Debug {
    /// What the interrupt has done since it was forwarded.
    fn state(&self) -> Result<ForwardedState, Error>;
}

/// What a forwarded interrupt has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedState {
    /// Physical interrupts that the guest got.
    pub injected: u64,
    /// Physical interrupts that took another way; 0 unless something is wrong.
    pub signalled: u64,
    /// Whether the guest has an interrupt that it has not ended.
    pub is_active: bool,
}
