//! Guest to host: what a device or a thread needs of a guest to have doorbells.

use vmm_sys_util::eventfd::EventFd;

use super::Error;
use crate::doorbell::{Datamatch, IoEventAddress, Sharing};

/// Registers doorbells, from any thread. Every [`Vm`](super::Vm) does.
pub trait IoEvents: Send + Sync {
    /// From its return on, a matching guest write signals `event` instead of leaving the guest.
    fn register_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
        sharing: Sharing,
    ) -> Result<(), Error>;

    /// When it returns, `event` gets no further signal from that registration. A write that races
    /// with it is delivered exactly once, as a signal or as an exit.
    fn unregister_ioevent(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), Error>;

    /// Lets writes of this range be kept back until the guest leaves for another reason, or too many
    /// are kept; they come as [`VmExit::MmioWrite`](super::VmExit::MmioWrite) then. Needs
    /// [`Capability::CoalescedMmio`](super::Capability::CoalescedMmio).
    fn register_coalesced(&self, address: u64, len: u32) -> Result<(), Error>;
}
