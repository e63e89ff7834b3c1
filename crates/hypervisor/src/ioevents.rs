//! Doorbells from guest to host: the trait with which a device or a thread registers them.

use std::sync::Arc;

use vmm_sys_util::eventfd::EventFd;

use super::{Doorbell, Error};
use vmbell::doorbell::{Datamatch, IoEventAddress, Sharing};

/// Registers doorbells, from any thread. Every [`Vm`](super::Vm) implements it.
pub trait IoEvents: Send + Sync {
    /// Registers a doorbell: once this returns, a matching guest write signals `event` instead of leaving to
    /// the VMM, until the returned value is removed or dropped.
    fn register_ioevent(
        &self,
        event: &Arc<EventFd>,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<Doorbell, Error>;
}
