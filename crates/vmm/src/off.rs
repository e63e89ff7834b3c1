//! The switch with which devices stop the machine, from any thread.

use std::sync::OnceLock;

use vmbell::sync::Mutex;

use crate::error::{BoardError, MachineError};
use crate::stop::Stop;

/// Why a device stopped the machine.
#[derive(Debug)]
pub(super) enum Off {
    /// The guest asked to be switched off.
    Guest,
    /// The guest asked to be reset.
    Reset,
    /// The guest said with this value that it is done.
    Done(u32),
    /// The guest went to sleep, and may be woken.
    Asleep,
    /// The device cannot continue.
    Failed {
        device: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Off {
    pub(super) fn failed(
        device: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = source.into();
        Self::Failed { device, source }
    }

    /// How the run ends whose vCPUs ended with `outcome`; `None` if the guest sleeps. What the guest asked for wins over
    /// the outcome, because another vCPU may fail before it is kicked.
    pub(super) fn end(
        self,
        outcome: Result<Stop, MachineError>,
    ) -> Result<Option<Stop>, BoardError> {
        match (self, outcome) {
            // First, because it makes all other results worthless.
            (Self::Failed { device, source }, _) => Err(BoardError::Device { device, source }),
            (Self::Guest, _) => Ok(Some(Stop::Shutdown)),
            (Self::Reset, _) => Ok(Some(Stop::Reset)),
            (Self::Done(code), _) => Ok(Some(Stop::Done(code))),
            (Self::Asleep, outcome) => Ok(Some(outcome?).filter(|stop| *stop != Stop::Kicked)),
        }
    }
}

/// The switch: on, or off with a reason.
#[derive(Default)]
pub(super) struct Switch {
    off: Mutex<Option<Off>>,
    kick: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Switch {
    /// Sets the function that kicks all vCPUs. Only the first call has an effect.
    pub(super) fn connect(&self, kick: impl Fn() + Send + Sync + 'static) {
        let _ = self.kick.set(Box::new(kick));
    }

    /// Turns the machine off, so that no vCPU enters the guest again. If it is off already, the first reason stays.
    pub(super) fn turn(&self, off: Off) {
        self.off.lock().get_or_insert(off);
        self.kick();
    }

    /// Kicks all vCPUs.
    pub(super) fn kick(&self) {
        // Also kicks the vCPU of this thread: it must not execute the next instruction.
        if let Some(kick) = self.kick.get() {
            kick();
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.off.lock().is_some()
    }

    /// Turns the switch on again and returns why it was off.
    pub(super) fn take(&self) -> Option<Off> {
        self.off.lock().take()
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Switch").field(&self.off).finish()
    }
}

#[cfg(test)]
#[path = "off_test.rs"]
mod tests;
