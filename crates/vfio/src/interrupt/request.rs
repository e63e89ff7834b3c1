//! The interrupt with which the host asks for a device back, before it removes the device or unbinds its driver (Linux
//! `vfio_pci_core_request`). The VMM has to release the device.

use std::sync::{Arc, Weak};

use vfio_bindings::bindings::vfio::VFIO_PCI_REQ_IRQ_INDEX;

use crate::device::{Device, DeviceKind};
use crate::error::PassthroughError;
use vmbell_devices::Listener;

/// A thread that waits for the host to ask for the device back. It ends when the value is dropped.
#[derive(Debug)]
pub struct RemovalRequest {
    // Weak, so that the thread does not keep the device open: the host waits until it is closed.
    device: Weak<Device>,
    _listener: Listener,
}

impl RemovalRequest {
    /// Calls `asked`, on its own thread, each time the host asks. `None` if the device has no such interrupt.
    pub fn watch(
        device: &Arc<Device>,
        mut asked: impl FnMut() + Send + 'static,
    ) -> Result<Option<Self>, PassthroughError> {
        let index = VFIO_PCI_REQ_IRQ_INDEX;
        if device.kind() != DeviceKind::Pci || device.irq(index).is_err() {
            return Ok(None);
        }
        let heard = move || {
            asked();
            false
        };
        let listener = Listener::start(|| {}, heard).map_err(PassthroughError::system(
            device.name(),
            "start a thread for it",
        ))?;
        device.set_triggers(index, 0, &[Some(listener.event())])?;
        Ok(Some(Self {
            device: Arc::downgrade(device),
            _listener: listener,
        }))
    }

    /// Whether the device is gone, so that no further request comes.
    pub fn is_over(&self) -> bool {
        self.device.strong_count() == 0
    }
}

impl Drop for RemovalRequest {
    fn drop(&mut self) {
        if let Some(device) = self.device.upgrade() {
            let _ = device.disable(VFIO_PCI_REQ_IRQ_INDEX);
        }
    }
}
