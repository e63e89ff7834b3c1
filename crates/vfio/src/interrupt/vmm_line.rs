//! A level-triggered line that a thread of the VMM raises in the guest, for guests without a resample eventfd.
//!
//! The VMM does not see the guest's EOI. So the guest's next access to the device counts as the end, as in QEMU without
//! KVM's irqfds: an interrupt handler always accesses its device. The line is lowered and unmasked, and rises again if
//! the device still asserts it. An interrupt that could not be raised ends in the same way, and the access reports the
//! error.

use std::fmt;
use std::sync::Arc;

use crate::device::Device;
use crate::error::PassthroughError;
use vmbell::eventfd::EventFd;
use vmbell::irq::Gsi;
use vmbell::sync::{Mutex, MutexGuard};
use vmbell_devices::Listener;
use vmbell_hypervisor::{Error, Irqs};

/// The line, until the value is dropped.
#[derive(Debug)]
pub(super) struct VmmLine {
    // Dropped first: the listener's thread raises the line.
    listener: Listener,
    state: Arc<VmmLineState>,
}

struct VmmLineState {
    device: Arc<Device>,
    index: u32,
    irqs: Arc<dyn Irqs>,
    gsi: Gsi,
    /// Held while the line is driven, so that the line follows this level.
    level: Mutex<Level>,
}

#[derive(Debug, Default)]
enum Level {
    #[default]
    Down,
    Up,
    /// The device has signalled and is masked, and the line could not be raised.
    Failed(Error),
}

impl VmmLine {
    /// Starts the thread. The device does not signal it yet.
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
            level: Mutex::default(),
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

    /// Takes the line down and unmasks it, if the device has signalled.
    pub(super) fn end(&self) -> Result<(), PassthroughError> {
        self.state.end()
    }
}

impl VmmLineState {
    fn lock(&self) -> MutexGuard<'_, Level> {
        self.level.lock()
    }

    fn begin(&self) {
        let mut level = self.lock();
        *level = match self.irqs.set_line(self.gsi, true) {
            Ok(()) => Level::Up,
            Err(error) => Level::Failed(error),
        };
    }

    fn end(&self) -> Result<(), PassthroughError> {
        let mut level = self.lock();
        let lowered = match std::mem::take(&mut *level) {
            Level::Down => return Ok(()),
            Level::Up => self.irqs.set_line(self.gsi, false),
            Level::Failed(error) => Err(error),
        };
        // This is done even after an error: the device's next interrupt may get through.
        let unmasked = self.unmask();
        lowered?;
        unmasked
    }

    fn unmask(&self) -> Result<(), PassthroughError> {
        if self.device.irq(self.index)?.maskable {
            self.device.unmask(self.index, 0)?;
        }
        Ok(())
    }
}

impl Drop for VmmLineState {
    fn drop(&mut self) {
        let level = self.level.get_mut();
        if let Level::Up = level {
            let _ = self.irqs.set_line(self.gsi, false);
        }
    }
}

impl fmt::Debug for VmmLineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VmmLineState")
            .field("index", &self.index)
            .field("gsi", &self.gsi)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, miri)))]
#[path = "vmm_line_test.rs"]
mod tests;
