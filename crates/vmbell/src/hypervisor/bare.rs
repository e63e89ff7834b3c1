//! The least that an exit costs: a guest that leaves again and again, with no bus and no device to
//! answer it. It runs on the thread that calls it, and any other may kick it.

use std::fmt;
use std::sync::Arc;

use super::{Error, Kick};

/// How the guest of a [`BareLoop`] leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareExit {
    /// By `out`.
    Pio,
    /// By a store to a hole in memory.
    Mmio,
}

/// The loop around such a guest.
pub trait BareLoop: fmt::Debug {
    /// Lets it leave so many times, on the caller's thread. A kick is an error.
    fn run(&mut self, exits: u64) -> Result<(), Error>;

    /// The handle that other threads kick it with.
    fn kick_handle(&self) -> BareKick;
}

/// Kicks the [`BareLoop`] of any backend.
#[derive(Clone)]
pub struct BareKick(Arc<dyn Fn() + Send + Sync>);

impl BareKick {
    /// What a backend's own handle does.
    pub fn new(kick: impl Kick) -> Self {
        Self(Arc::new(move || kick.kick()))
    }
}

impl Kick for BareKick {
    fn kick(&self) {
        (self.0)();
    }
}

impl fmt::Debug for BareKick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BareKick").finish_non_exhaustive()
    }
}
