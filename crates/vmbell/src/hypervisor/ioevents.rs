//! Doorbells without the backend's types: what a device needs of a [`Vm`], and nothing else.

use vmm_sys_util::eventfd::EventFd;

use super::Vm;
use crate::doorbell::{Datamatch, IoEventAddress, Sharing};

/// Registers doorbells on behalf of devices. Every [`Vm`] does.
pub trait IoEvents: Send + Sync {
    /// See [`Vm::register_ioevent`]; nobody else may have the address.
    fn register(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), IoEventError>;

    /// See [`Vm::unregister_ioevent`].
    fn unregister(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), IoEventError>;
}

/// What a backend refused to a device.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} the doorbell at {address}, {datamatch}")]
pub struct IoEventError {
    /// `register` or `unregister`.
    pub operation: &'static str,
    /// Where.
    pub address: IoEventAddress,
    /// For which writes.
    pub datamatch: Datamatch,
    /// Why.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl<V: Vm> IoEvents for V {
    fn register(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), IoEventError> {
        self.register_ioevent(event, address, datamatch, Sharing::Exclusive)
            .map_err(|source| IoEventError {
                operation: "register",
                address,
                datamatch,
                source: source.into(),
            })
    }

    fn unregister(
        &self,
        event: &EventFd,
        address: IoEventAddress,
        datamatch: Datamatch,
    ) -> Result<(), IoEventError> {
        self.unregister_ioevent(event, address, datamatch)
            .map_err(|source| IoEventError {
                operation: "unregister",
                address,
                datamatch,
                source: source.into(),
            })
    }
}
