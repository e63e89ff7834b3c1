//! Doorbells from guest to host: the trait with which a device or a thread registers them.

use vmm_sys_util::eventfd::EventFd;

use super::Error;
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};

/// Registers doorbells, from any thread. Every [`Vm`](super::Vm) implements it.
pub trait IoEvents: Send + Sync {
    /// Registers a doorbell: once this returns, a matching guest write signals `event` instead of leaving to
    /// the VMM.
    fn register_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error>;

    /// Removes a doorbell: once this returns, this registration signals `event` no more. A write at the same
    /// time is delivered exactly once, as a signal or as an exit.
    fn unregister_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), Error>;
}
