//! Measures the least that an exit costs: a guest that only makes exits of one kind, without a bus or a device to
//! answer them. The loop runs on the thread that calls it; any thread may kick it.

use std::fmt;
use std::sync::Arc;

use super::{Error, Kick};

/// The kind of exit that the guest of a [`BareLoop`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareExit {
    /// `out` to a port.
    Pio,
    /// A store to an address without memory.
    Mmio,
    /// A store of four bytes that signals an eventfd, which nobody reads. The kernel answers it and the guest goes on, so
    /// the guest leaves for the loop only once in a run.
    Ioeventfd,
}

/// The loop around a guest that only makes exits.
pub trait BareLoop: fmt::Debug {
    /// Runs until the guest has made this many exits, on the caller's thread. A kick is an error.
    fn run(&mut self, exits: u64) -> Result<(), Error>;

    /// A handle with which any thread can kick the loop's vCPU.
    fn kick_handle(&self) -> Arc<dyn Kick>;
}
