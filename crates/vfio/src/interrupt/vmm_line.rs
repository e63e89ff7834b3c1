//! A level-triggered line that a thread of the VMM raises in the guest, for guests without a resample eventfd.
//!
//! The VMM does not see the guest's EOI. So the guest's next access to the device counts as the end, as in QEMU
//! without KVM's irqfds: a handler makes one. The line is lowered and unmasked, and rises again if the
//! device still asserts it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::PassthroughError;
use crate::device::Device;
use vmbell::eventfd::EventFd;
use vmbell::irq::Gsi;
use vmbell_devices::Listener;
use vmbell_hypervisor::Irqs;

/// The line, until this is dropped.
#[derive(Debug)]
pub(super) struct VmmLine {
    // Dropped first: its thread raises the line.
    listener: Listener,
    state: Arc<VmmLineState>,
}

struct VmmLineState {
    device: Arc<Device>,
    index: u32,
    irqs: Arc<dyn Irqs>,
    gsi: Gsi,
    /// Whether the line is up. Held while the line is driven, so that its level follows this.
    up: Mutex<bool>,
}

impl VmmLine {
    /// Starts the thread. The device does not know of it yet.
    pub(super) fn start(
        device: &Arc<Device>,
        index: u32,
        irqs: &Arc<dyn Irqs>,
        gsi: Gsi,
    ) -> Result<Self, PassthroughError> {
        device.irq(index)?;
        let state = Arc::new(VmmLineState {
            device: Arc::clone(device),
            index,
            irqs: Arc::clone(irqs),
            gsi,
            up: Mutex::new(false),
        });
        let heard = {
            let state = Arc::clone(&state);
            move || {
                state.begin();
                false
            }
        };
        let listener = Listener::start(|| {}, heard).map_err(PassthroughError::system(
            device.name(),
            "start a thread for it",
        ))?;
        Ok(Self { listener, state })
    }

    /// The eventfd for the device to signal.
    pub(super) fn trigger(&self) -> &EventFd {
        self.listener.event()
    }

    /// Takes the line down and unmasks it, if it is up.
    pub(super) fn end(&self) -> Result<(), PassthroughError> {
        self.state.end()
    }
}

impl VmmLineState {
    fn begin(&self) {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        // A guest that ends takes its lines with it; otherwise driving a line cannot fail.
        *up = self.irqs.set_line(self.gsi, true).is_ok();
    }

    fn end(&self) -> Result<(), PassthroughError> {
        let mut up = self.up.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut *up) {
            return Ok(());
        }
        self.irqs.set_line(self.gsi, false)?;
        if self.device.irq(self.index)?.maskable {
            self.device.unmask(self.index, 0)?;
        }
        Ok(())
    }
}

impl Drop for VmmLineState {
    fn drop(&mut self) {
        let up = self.up.get_mut().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(up) {
            let _ = self.irqs.set_line(self.gsi, false);
        }
    }
}

impl fmt::Debug for VmmLineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmmLineState")
            .field("index", &self.index)
            .field("gsi", &self.gsi)
            .field("up", &self.up)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "vmm_line_test.rs"]
mod tests;
